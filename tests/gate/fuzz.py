"""Send frames that no peer sends, from both sides: ``python -m tests.gate.fuzz --cases N --seed S``.

A case is a handful of well-formed frames, most of them damaged (bytes changed, cut out or put in, sizes
rewritten), cut into pieces at random and fed to one connection. Whatever comes, a connection either
goes on or is closed with a reason: the only exception is MalformedFrame. What it keeps is bounded, its
books can be closed, and a gate without limits passes what it passes untouched. Each case is run twice,
deciding runs of frames at once and every frame on its own, with the same outcome. A failure names the
seed and the number of its case; ``--first`` goes straight there.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from coordinator.core.model import Rates
from coordinator.core.traffic import Traffic
from coordinator.gate.engine.session import Session
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.modes import Modes
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.gate.protocol.connect_policy import Client, ConnectPolicy
from coordinator.gate.protocol.frames import MalformedFrame
from coordinator.gate.protocol.stream import FrameStream
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.helper import deciding

HELD_BYTES_MAX = 2000
OWN_KINDS = (2, 11, 14, 19, 21, 23)
"""CONNECT, FLOW, ERROR, PONG, PARTITIONED_METADATA and LOOKUP."""
MAX_MESSAGE_SIZE = 4000
_NAMED = f"{TOPIC}-partition-1"

FROM_CLIENT: list[bytes] = [
    peer.connect(), peer.command(2, (1, "c"), (4, 19), (6, "elsewhere:6650")), peer.PING, peer.PONG,
    peer.producer(TOPIC, 1, 1), peer.producer(_NAMED, 2, 2), peer.producer("a//b", 3, 3),
    peer.send(1), peer.send(2, 300, 7), peer.send(1, 1, 1, b"z" * 1500), peer.send(9),
    peer.send(1, 2, deliver_at_ms=9), peer.send(2, 3, 5, deliver_at_ms=peer.PUBLISHED_MS + 1),
    peer.close_producer(1, 4), peer.subscribe(TOPIC, 1, 5), peer.subscribe(_NAMED, 200, 6, kind=1),
    peer.flow(1, 1000), peer.flow(200, 2**32 - 1), peer.flow(7, 1), peer.unsubscribe(1, 7),
    peer.close_consumer(1, 8), peer.command(10, (1, 1)), peer.command(77, (1, b"?")),
    peer.command(2, (1, "c"), (5, "tls"), (7, "admin")), peer.command(37, (1, "c")),
    peer.command(23, (1, TOPIC), (2, 12), (7, "internal")), peer.command(21, (1, TOPIC), (2, 12)),
    peer.command(32, (1, 13), (2, "tenant/ns")), peer.command(20, (1, 1)), peer.command(90, (1, 1)),
    peer.command(10, (1, 1), (2, 0), (3, peer.message((1, 5), (2, 6), (3, 2**64 - 1)))),
]  # fmt: skip
OPENED: list[bytes] = [
    peer.producer(TOPIC, 1, 101), peer.producer(_NAMED, 2, 102), peer.subscribe(TOPIC, 1, 105),
    peer.subscribe(_NAMED, 200, 106, kind=1),
]  # fmt: skip
"""Commands that come first in most cases."""
FROM_BROKER: list[bytes] = [
    peer.connected(MAX_MESSAGE_SIZE), peer.PING, peer.PONG, peer.producer_success(1),
    peer.producer_success(2, ready=False), peer.success(5), peer.success(8), peer.error(7),
    peer.receipt(1, 0), peer.receipt(2, 300), peer.send_error(1), peer.close_producer(1, 0),
    peer.close_consumer(1, 0), peer.delivery(1), peer.delivery(200, 50, broker_entry=b"\x08\x01"),
    peer.delivery(1, 3, b"y" * 1500, checksum=False), peer.command(68, (1, 1)),
    peer.command(36, (1, "broker")), peer.success(6), peer.error(3),
    peer.command(24, (1, "pulsar://b:1"), (3, 1), (4, 12)), peer.command(33, (1, 13)),
]  # fmt: skip


def damage(dice: random.Random, frames: bytearray) -> None:
    """Do one thing to a stream that its author did not mean."""
    position = dice.randrange(len(frames))
    match dice.randrange(6):
        case 0:
            frames[position] ^= 1 << dice.randrange(8)
        case 1:
            frames[position] = dice.choice((0, 0x7F, 0x80, 0xFF))
        case 2:
            del frames[position : position + dice.randrange(1, 12)]
        case 3:
            frames[position:position] = dice.randbytes(dice.randrange(1, 12))
        case 4:
            size = dice.choice((0, 1, 5, 2**31, 2**32 - 1, dice.randrange(2**16)))
            frames[position : position + 4] = struct.pack(">I", size)
        case _:
            frames[position:position] = frames[: dice.randrange(1, 40)]


def stream_of(dice: random.Random, frames: list[bytes]) -> bytes:
    """Return the bytes that one side sends in a case."""
    stream = bytearray(b"".join(dice.choices(frames, k=dice.randrange(1, 12))))
    for _ in range(dice.choice((0, 0, 1, 1, 2, 5))):
        if stream:
            damage(dice, stream)
    return bytes(stream)


class Outcome(NamedTuple):
    """The outcome of a case.

    Args:
        end: why the connection was closed, or that it goes on.
        passed: what the other side received of each side.
        traffic: what was counted.
        throttles: how often each reason held something back.
    """

    end: str
    passed: dict[str, bytes]
    traffic: tuple[Traffic, ...]
    throttles: Counter[ThrottleReason]


def run_case(seed: str) -> str:
    """Run one case with and without the helper; return how the connection ended.

    Raises:
        AssertionError: they differ, or a promise of this module's theory is broken.
    """
    outcomes = []
    for by_runs in (False, True):
        with deciding(by_runs):
            outcomes.append(run_once(random.Random(seed)))
    assert outcomes[0] == outcomes[1]
    return outcomes[0].end


def run_once(dice: random.Random) -> Outcome:
    """Run one case.

    Raises:
        AssertionError: a promise of this module's theory is broken.
    """
    bench = Bench()
    limited = dice.random() < 0.7
    if dice.random() < 0.5:
        bench.groups = GroupTable(bench.story, modes=Modes(delayed_group="late"))
    if limited:
        bench.limit("late", dice.choice((0, 1, 1000, None)))
        bench.attach(ns="group")
        rate = dice.choice((0, 1, 1000, None))
        # Permits are passed on once per run instead of once per entry, so no dispatch limit that acts.
        dispatch = dice.choice((None, 0))
        bench.set_limits("group", Rates(rate, dice.choice((None, 10_000)), dispatch, None))
        bench.limit_topic(_NAMED, Rates(publish_messages=10), partitions=2)
    vouches = dice.random() < 0.3
    pending_requests_max = dice.choice((None, 2)) if limited else None
    connect_policy = ConnectPolicy(vouches=vouches)
    is_connected = dice.random() < 0.8
    client = bench.client(
        HELD_BYTES_MAX, pending_requests_max, connect_policy, connected=is_connected
    )
    if is_connected and dice.random() < 0.8:
        client.opens(*OPENED)
    session = client.session
    if dice.random() < 0.5:
        session.connected(Client("10.0.0.1", "alice"))
    sides: dict[str, tuple[bytes, Callable[[bytes, int], None]]] = {
        "client": (stream_of(dice, FROM_CLIENT), session.receive_from_client),
        "broker": (stream_of(dice, FROM_BROKER), session.receive_from_broker),
    }
    passed = {"client": b"", "broker": b""}
    fed = {"client": 0, "broker": 0}
    outcome = "goes on"
    try:
        while outcome == "goes on" and any(fed[side] < len(sides[side][0]) for side in sides):
            side = dice.choice(("client", "broker"))
            stream, receive = sides[side]
            piece = stream[fed[side] : fed[side] + dice.choice((1, 7, 60, 5000))]
            fed[side] += len(piece)
            if piece:
                receive(piece, bench.now_ns)
            bench.wait(dice.choice((0, 0, 5, 50)))
            _collect(session.to_broker, passed, "client")
            _collect(session.to_client, passed, "broker")
            assert_bounded(session)
            assert _in_memory(session._from_broker) <= session._from_broker.frame_max
    except MalformedFrame as error:
        outcome = error.fault.value
    _collect(session.to_broker, passed, "client")
    _collect(session.to_client, passed, "broker")
    if not limited:
        for side, (stream, _) in sides.items():
            assert all(frame in stream for frame in _whole(passed[side])), f"{side}'s bytes"
    session.close(bench.now_ns)
    assert (session.held_bytes, bench.queue.waiting, bench.buffer.held_bytes) == (0, 0, 0)
    traffic = bench.groups.collect(bench.now_ns)
    assert all(counted.participants == 0 for counted in traffic)
    return Outcome(outcome, passed, traffic, session.throttle.counts)


def assert_bounded(session: Session) -> None:
    """Each side holds no more than its bound, or one frame, which is held whatever its size."""
    holding, participants = session._holding, session._participants
    publishes = sum(len(producer.held) for producer in participants.producers.values())
    deliveries = sum(len(consumer.held) for consumer in participants.consumers.values())
    most = 2 * HELD_BYTES_MAX  # for a client that is challenged
    assert holding.held_bytes <= most or publishes <= 1
    assert holding.deliveries.held_bytes <= HELD_BYTES_MAX or deliveries <= 1


def _in_memory(stream: FrameStream) -> int:
    """The bytes that are not decided, also while the stream is stopped."""
    return len(stream._head) + sum(map(len, stream._unread))


def _whole(passed: bytes) -> list[bytes]:
    """The frames that arrived in full, but for those that the gate writes anew or by itself."""
    frames = []
    while len(passed) >= 12 and len(passed) >= 4 + int.from_bytes(passed[:4], "big"):
        size = 4 + int.from_bytes(passed[:4], "big")
        if passed[9] not in OWN_KINDS:
            frames.append(passed[:size])
        passed = passed[size:]
    return frames


def _collect(buffers: list[bytes | memoryview], passed: dict[str, bytes], side: str) -> None:
    passed[side] += b"".join(buffers)
    buffers.clear()


def fuzz(seed: int, cases: int, first: int = 0) -> Counter[str]:
    """Run cases; return how often connections ended how.

    Raises:
        AssertionError: a case failed; a note says which.
    """
    outcomes: Counter[str] = Counter()
    for number in range(first, first + cases):
        try:
            outcomes[run_case(f"{seed}/{number}")] += 1
        except Exception as error:
            error.add_note(f"python -m tests.gate.fuzz --seed {seed} --first {number} --cases 1")
            raise
    return outcomes


def main() -> int:
    """Read the command line and fuzz."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}, {options.cases} cases\n")
    sys.stdout.flush()
    outcomes = fuzz(options.seed, options.cases, options.first)
    for outcome, count in outcomes.most_common():
        sys.stdout.write(f"{count:>9}  {outcome}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

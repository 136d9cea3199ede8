"""Connections of the gate, and frames of clients that no client should send."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from coordinator.core.model import Rates
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.modes import Modes
from coordinator.gate.protocol.connect_policy import Client, ConnectPolicy
from coordinator.gate.protocol.frames import MalformedFrame
from tests.decoder import corpus, mutations
from tests.decoder.wire import CONNECT, SEND, Draft, split, take_apart
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.conftest import Client as Connection

MAX_MESSAGE_SIZE: Final = 6000
TARGET: Final = "ours:6650"
PRINCIPAL: Final = "alice"
_OTHER: Final = f"{TOPIC}-partition-1"

PRODUCERS: Final = (peer.producer(TOPIC, 1, 901), peer.producer(_OTHER, 300, 902))
CONSUMERS: Final = (peer.subscribe(TOPIC, 1, 903), peer.subscribe(_OTHER, 200, 904, kind=1))
"""The commands that open the participants of a connection."""

_CONNECT: Final = peer.connect()
_CONNECTED: Final = peer.connected(MAX_MESSAGE_SIZE)
_ANSWERS: Final[Mapping[tuple[bytes, ...], bytes]] = {
    PRODUCERS: peer.producer_success(901) + peer.producer_success(902),
    CONSUMERS: peer.success(903) + peer.success(904),
}
_CHALLENGE: Final = peer.command(36, (1, "broker"), (2, peer.message((1, "token"))))
_RESPONSE: Final = peer.command(37, (1, "c"), (2, peer.message((1, "token"), (2, "t"))), (3, 19))

#: Where ids and topics stand in a command, by its number.
_PRODUCER_IDS: Final = {5: 2, 6: 1, 15: 1}
_CONSUMER_IDS: Final = {4: 4, 10: 1, 11: 1, 12: 1, 16: 1, 20: 1, 25: 4, 28: 1, 29: 1}
_TOPICS: Final = {4: 1, 5: 1, 21: 1, 23: 1, 34: 2, 39: 2}


@dataclass(slots=True)
class Case:
    """The bytes that are sent, and the gate that gets them.

    Args:
        name: seed and number.
        frames: in order.
        cuts: where what is sent is cut into pieces.
        opened: what the client has opened already; None before CONNECT.
        vouches: whether the gate speaks for its clients.
        certified: whether the client has shown a certificate.
        challenged: whether the broker has asked the client to authenticate again.
        limited: whether the group has limits, which are never reached.
        delayed: whether delayed messages are counted apart.
        both_ways: whether it is run without the C helper as well, which looks at SENDs only.
    """

    name: str
    frames: list[bytes]
    cuts: list[int] = field(default_factory=list)
    opened: tuple[tuple[bytes, ...], ...] | None = (PRODUCERS, CONSUMERS)
    vouches: bool = False
    certified: bool = False
    challenged: bool = False
    limited: bool = False
    delayed: bool = False
    both_ways: bool = True


@dataclass(slots=True)
class Run:
    """The outcome of a case.

    Args:
        passed: the frames that left the gate towards the broker.
        end: why the gate closed the connection; empty if it did not.
        told: what the client was sent.
    """

    bench: Bench
    connection: Connection
    passed: list[bytes]
    end: str
    told: bytes


class Sent(NamedTuple):
    """A frame of the corpus with ids and topics that are there, in parts and as bytes."""

    draft: Draft
    frame: bytes

    @property
    def kind(self) -> int:
        """The type."""
        return self.draft.kind


class Repertoire(NamedTuple):
    """The frames of clients: first of all; then; and their publishes."""

    connects: tuple[Sent, ...]
    others: tuple[Sent, ...]
    sends: tuple[Sent, ...]


@cache
def repertoire() -> Repertoire:
    """The corpus, as clients would send it on the connection of a case."""
    connect = peer.command(2, (1, "c"), (3, b"t"), (4, 19), (5, "tls"), (6, TARGET))
    frames = [each.frame for each in corpus.load() if each.from_client]
    sent = []
    for frame in (*frames, connect, connect, _RESPONSE):
        draft = take_apart(frame)
        _rename(draft)
        sent.append(Sent(draft, draft.encode()))
    return Repertoire(
        tuple(each for each in sent if each.kind == CONNECT),
        tuple(each for each in sent if each.kind != CONNECT),
        tuple(each for each in sent if each.kind == SEND),
    )


def _rename(draft: Draft) -> None:
    """Give a frame ids and topics that are there."""
    command = draft.command[1].value
    assert isinstance(command, list)
    for each in command:
        if isinstance(each.value, int):
            if each.number == _PRODUCER_IDS.get(draft.kind):
                each.value = (1, 300)[each.value % 2]
            elif each.number == _CONSUMER_IDS.get(draft.kind):
                each.value = (1, 200)[each.value % 2]
        elif isinstance(each.value, bytes) and each.number == _TOPICS.get(draft.kind):
            each.value = (TOPIC, _OTHER)[len(each.value) % 2].encode()


def case_of(seed: int, number: int) -> Case:
    """A case, by its number."""
    dice = random.Random(f"{seed}/{number}")
    known = repertoire()
    is_open = dice.random() < 0.85
    count = dice.choice((1, 1, 1, 2, 3, 6, 12)) if is_open else 1
    if not is_open:
        chosen = [dice.choice(known.connects)]
    elif dice.random() < 0.4:  # a run
        chosen = [dice.choice(known.sends)] * count
    else:
        chosen = dice.choices(known.others, k=count)
        chosen[0] = dice.choice((chosen[0], dice.choice(known.sends)))
    frames = [each.frame for each in chosen]
    for at in {dice.randrange(count) for _ in range(dice.choice((1, 1, 1, 2)))}:
        frames[at] = mutations.mutated(dice, chosen[at].draft)
    size = sum(map(len, frames))
    pieces = dice.choice((0, 0, 0, 1, 2, 6, size))
    cuts = (
        range(1, size) if pieces == size <= 300 else dice.choices(range(size + 1), k=min(pieces, 9))
    )
    return Case(
        f"{seed}/{number}",
        frames,
        sorted(set(cuts)),
        opened=_opened(chosen) if is_open else None,
        vouches=dice.random() < 0.4,
        certified=dice.random() < 0.6,
        challenged=is_open and dice.random() < 0.2,
        limited=dice.random() < 0.5,
        delayed=dice.random() < 0.5,
        both_ways=number % 8 == 0 or any(each.kind == SEND for each in chosen),
    )


def _opened(chosen: list[Sent]) -> tuple[tuple[bytes, ...], ...]:
    """Return the frames that open the participants that later frames need."""
    if all(each.kind in _PRODUCER_IDS for each in chosen):
        return (PRODUCERS,)
    if all(each.kind in _CONSUMER_IDS for each in chosen):
        return (CONSUMERS,)
    return PRODUCERS, CONSUMERS


def run(case: Case) -> Run:
    """Send the frames of a case to a gate."""
    bench = Bench()
    if case.delayed:
        bench.groups = GroupTable(bench.story, modes=Modes(delayed_group="late"))
    bench.attach(ns="group")
    if case.limited:
        bench.set_limits("group", Rates(10**12, 10**15, None, None))
    bench.wait(10)
    policy = ConnectPolicy(targets=frozenset({TARGET}), vouches=case.vouches)
    connection = bench.client(connect_policy=policy, connected=False)
    session = connection.session
    if case.certified:
        session.connected(Client("10.0.0.1", PRINCIPAL))
    if case.opened is not None:
        session.receive_from_client(_CONNECT, bench.now_ns)
        session.receive_from_broker(_CONNECTED, bench.now_ns)
        for requests in case.opened:
            session.receive_from_client(b"".join(requests), bench.now_ns)
            session.receive_from_broker(_ANSWERS[requests], bench.now_ns)
    if case.challenged:
        session.receive_from_broker(_CHALLENGE, bench.now_ns)
    session.to_broker.clear()
    session.to_client.clear()
    stream = b"".join(case.frames)
    pieces = [stream[start:stop] for start, stop in pairwise((0, *case.cuts, len(stream)))]
    end = ""
    try:
        for piece in (*pieces, _missing(stream)):
            if piece:
                session.receive_from_client(piece, bench.now_ns)
    except MalformedFrame as fault:
        end = fault.fault.name
    passed = split(b"".join(session.to_broker))
    session.to_broker.clear()
    return Run(bench, connection, passed, end, b"".join(session.to_client))


def _missing(stream: bytes) -> bytes:
    """Return the bytes that the last frame of a stream lacks by its size, if these are few."""
    last = split(stream)[-1]
    missing = 4 + int.from_bytes(last[:4], "big") - len(last)
    return bytes(missing) if missing <= 2 * MAX_MESSAGE_SIZE else b""

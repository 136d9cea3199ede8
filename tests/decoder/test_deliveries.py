"""The gate counts a delivery as Pulsar reads it, whatever its publisher wrote into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from coordinator.core.model import MonitoringClass
from tests.decoder import belief, corpus
from tests.decoder.judge import Judge, Reading, libraries
from tests.decoder.wire import MESSAGE, Draft, Field, take_apart
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.helper import deciding

pytestmark = [pytest.mark.java, pytest.mark.slow]

_CASES = 6_000
_PERMITS = 1000


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """The decoder of a Pulsar."""
    with Judge(libraries()[0]) as judge:
        yield judge


def messages() -> list[Draft]:
    """Return brokers' deliveries to the only consumer."""
    drafts = []
    for recorded in corpus.load():
        draft = take_apart(recorded.frame)
        if not recorded.from_client and draft.kind == MESSAGE:
            command = draft.command[1].value
            assert isinstance(command, list)
            command[0] = Field(1, 0, 1)
            drafts.append(draft)
    return drafts


def deliver(frame: bytes) -> tuple[int, int, int]:
    """Send a frame to a consumer through the gate: messages and bytes that were counted, permits used."""
    bench = Bench()
    bench.attach(ns="group")
    client = bench.client()
    client.sends(peer.subscribe(TOPIC))
    client.is_sent(peer.success(1))
    client.sends(peer.flow(1, _PERMITS))
    assert client.is_sent(frame) == [frame]
    (traffic,) = bench.groups.collect(bench.now_ns)
    assert traffic.monitoring_class is MonitoringClass.DISPATCH
    permits = _PERMITS - client.session._participants.consumers[1].permits
    client.session.close(bench.now_ns)
    return traffic.messages, traffic.bytes, permits


def both_ways(frames: Sequence[bytes]) -> list[tuple[int, int, int]]:
    """The same with the C helper and without."""
    with deciding(by_runs=True):
        fast = [deliver(frame) for frame in frames]
    with deciding(by_runs=False):
        assert [deliver(frame) for frame in frames] == fast
    return fast


def permits_of(reading: Reading) -> int:
    """Return the permits that a broker takes from a consumer for a message."""
    assert reading.command is not None
    assert reading.metadata is not None
    claimed: int = max(1, reading.metadata.get("nummessagesinbatch", 1))
    left = [each % 2**64 for each in reading.command.get("ackset", ())]
    return min(claimed, sum(map(int.bit_count, left))) if left else claimed


def test_what_brokers_deliver_is_counted_exactly(judge: Judge) -> None:
    """Messages, bytes and permits of the corpus."""
    frames = [draft.encode() for draft in messages()]
    assert len(frames) > 30
    for frame, reading, counted in zip(frames, judge.read(frames), both_ways(frames), strict=True):
        expected = (
            belief.messages_of(frame, reading), len(frame) - reading.end, permits_of(reading),
        )  # fmt: skip
        assert counted == expected, frame.hex()

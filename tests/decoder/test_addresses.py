"""Frames in which the gate replaced addresses: Pulsar reads those of gates, and all else as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.core.addresses import AddressMap
from tests.decoder.judge import Fields, Judge, libraries
from tests.gate import peer
from tests.gate.conftest import Bench
from tests.gate.peer import Field

pytestmark = [pytest.mark.java, pytest.mark.slow]

INTERNAL, GATE, FOREIGN = "pulsar://b:6650", "pulsar://gate-of-b:16652", "pulsar://c:6650"
MAP = AddressMap({INTERNAL: GATE, GATE: GATE})
ANONYMOUS = 2**64 - 1

ADDRESSES = {"brokerserviceurl", "brokerserviceurltls"} | {
    "assignedbrokerserviceurl", "assignedbrokerserviceurltls",
}  # fmt: skip

FRAMES: dict[str, tuple[int, list[Field], list[Field]]] = {
    "lookup": (24, [], [(3, 1), (4, 300), (5, 1), (8, 0)]),
    "redirect": (24, [], [(3, 0), (4, 7), (5, 0)]),
    "closed producer": (15, [(1, 300), (2, ANONYMOUS)], []),
    "closed consumer": (16, [(1, 3), (2, ANONYMOUS)], []),
    "migrated": (68, [(1, 300), (2, 1)], []),
}
"""Type, and the fields before and behind the addresses."""

FIRST = {24: 1, 15: 3, 16: 3, 68: 3}
"""The number of the first address of each type."""


@pytest.fixture(scope="module", params=libraries(), ids=lambda library: library.name)
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """The decoder of a Pulsar."""
    library: Path = request.param
    with Judge(library) as judge:
        yield judge


def through_the_gate(frame: bytes) -> bytes:
    """Return the bytes that a client gets instead."""
    bench = Bench()
    bench.addresses.map = MAP
    client = bench.client()
    (passed,) = client.is_sent(frame)
    client.session.close(bench.now_ns)
    return passed


def read(judge: Judge, frame: bytes) -> Fields:
    """Return Pulsar's reading, to the last byte of the frame."""
    (reading,) = judge.read([frame])
    assert reading.command is not None, reading.refused
    assert reading.end == len(frame)
    assert reading.others == frozenset()
    return reading.command


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("urls", [(INTERNAL,), (INTERNAL, INTERNAL), (GATE, INTERNAL), (GATE,)])
def test_pulsar_reads_the_gates_address_and_every_other_field_as_before(
    judge: Judge, name: str, urls: tuple[str, ...]
) -> None:
    """In all commands of these releases that name one."""
    kind, before, behind = FRAMES[name]
    named = [(FIRST[kind] + n, url) for n, url in enumerate(urls)]
    sent = peer.command(kind, *before, *named, *behind)

    was, told = read(judge, sent), read(judge, through_the_gate(sent))

    assert told == {key: GATE if key in ADDRESSES else value for key, value in was.items()}
    assert len(told.keys() & ADDRESSES) == len(urls)


def test_pulsar_reads_a_lookup_that_leads_to_no_gate_as_one_that_failed(judge: Judge) -> None:
    """With the error that makes a client ask again."""
    sent = peer.command(24, (1, FOREIGN), (3, 1), (4, 300), (5, 1))

    told = read(judge, through_the_gate(sent))

    assert (told["response"], told["requestid"]) == ("Failed", 300)
    assert told["error"] == "ServiceNotReady"
    assert told.keys() & ADDRESSES == set()

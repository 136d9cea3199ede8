"""Commands of a broker written anew: other addresses, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.gate.protocol.addresses import PLACES, Place, Rewriting
from coordinator.gate.protocol.frames import LOOKUP_RESPONSE, MalformedFrame
from tests.gate import peer
from tests.gate.peer import Field

WAYS = {"pulsar://a:1": "pulsar://gate-of-a:20", "pulsar://gate": "pulsar://gate", "lost": ""}
NESTED, REQUIRED = 7, 2
SEGMENT = Place(frozenset({2, 3}), required=frozenset({REQUIRED}))
PLACE = Place(frozenset({1, 4}), {NESTED: SEGMENT})

urls = st.sampled_from(sorted(WAYS))
others = st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=200))


def fields_of(place: Place) -> st.SearchStrategy[list[Field]]:
    """Fields in any order and number, of which some are addresses."""
    free = st.sampled_from([n for n in range(1, 200) if n not in place.urls | {NESTED}])
    address = st.tuples(st.sampled_from(sorted(place.urls)), urls)
    return st.lists(st.one_of(address, st.tuples(free, others)), max_size=8)


def model(fields: list[Field], place: Place) -> list[Field] | None:
    """The fields that a client is told; None if the message is left out."""
    told: list[Field] = []
    for number, value in fields:
        if number not in place.urls:
            told.append((number, value))
        elif WAYS[str(value)]:
            told.append((number, WAYS[str(value)]))
        elif number in place.required:
            return None
    return told


@given(outer=fields_of(PLACE), segments=st.lists(fields_of(SEGMENT), max_size=3))
def test_addresses_are_replaced_and_all_else_stays_in_its_order(
    outer: list[Field], segments: list[list[Field]]
) -> None:
    """As a model that works on the fields says, at both levels."""
    nested = [model(segment, SEGMENT) for segment in segments]
    told = model(outer, PLACE)
    assert told is not None
    told += [(NESTED, peer.message(*segment)) for segment in nested if segment is not None]
    sent = peer.message(*outer, *((NESTED, peer.message(*segment)) for segment in segments))

    written = Rewriting(WAYS.__getitem__).message(b"??" + sent + b"!", 2, 2 + len(sent), PLACE)

    assert written == peer.message(*told)


@pytest.mark.parametrize(
    "broken",
    [b"\x0a\x05abc", b"\x0a", b"\x18", b"\x0b\x01", b"\x18\x80\x00", b"\x0a\xff\xff\xff\xff\x0f"],
)
def test_a_command_that_cannot_be_read_ends_the_connection(broken: bytes) -> None:
    """No client is sent what the gate could not judge."""
    with pytest.raises(MalformedFrame):
        Rewriting(str).message(broken, 0, len(broken), PLACES[LOOKUP_RESPONSE])

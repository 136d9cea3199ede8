"""LOOKUP and PARTITIONED_METADATA: what of them goes to the broker."""

from __future__ import annotations

import pytest

from coordinator.gate.protocol.connect_policy import ConnectPolicy
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.peer import varint

VOUCHES = ConnectPolicy(vouches=True)
PROPERTY = peer.message((1, "key"), (2, "value"))
LATER = varint(99 << 3) + b"\x05"


@pytest.mark.parametrize("connect_policy", [ConnectPolicy(), VOUCHES], ids=["plain", "vouches"])
def test_no_listener_is_passed_on(bench: Bench, connect_policy: ConnectPolicy) -> None:
    """A broker answers with the address of the listener that is named, and that may be its own port."""
    client = bench.client(connect_policy=connect_policy)

    passed = client.sends(peer.command(23, (1, TOPIC), (2, 7), (3, 1), (7, "internal")))

    assert passed == [peer.command(23, (1, TOPIC), (2, 7), (3, 1))]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        # The order stays, and so do properties that occur several times.
        (23, [(3, 0), (4, "alice"), (5, b"data"), (6, "token"), (8, PROPERTY), (8, PROPERTY)]),
        # A proxy behind the gate has a role of its own, and speaks for its clients.
        (21, [(3, "alice"), (4, b"data"), (5, "token")]),
    ],
    ids=["LOOKUP", "PARTITIONED_METADATA"],
)
def test_what_is_said_else_is_passed_on_where_the_broker_judges_it(
    bench: Bench, kind: int, fields: list[peer.Field]
) -> None:
    """Of a principal, too."""
    asked = peer.command(kind, (1, TOPIC), (2, 7), *fields)

    assert bench.client().sends(asked) == [asked]


def test_no_principal_is_passed_on_where_the_gate_vouches(bench: Bench) -> None:
    """The broker would believe it, because the gate's own role may speak for others."""
    client = bench.client(connect_policy=VOUCHES)

    assert client.sends(
        peer.command(23, (1, TOPIC), (2, 7), (4, "admin"), (5, b"data"), (6, "tls")),
        peer.command(21, (1, TOPIC), (2, 8), (3, "admin"), (4, b"data"), (5, "tls"), (6, 1)),
    ) == [peer.command(23, (1, TOPIC), (2, 7)), peer.command(21, (1, TOPIC), (2, 8), (6, 1))]


@pytest.mark.parametrize("kind", [21, 23])
def test_numbers_of_a_later_release_are_left_out(bench: Bench, kind: int) -> None:
    """A field that the gate does not know might name an address or a role."""
    fields = peer.message((1, TOPIC), (2, 7))
    client = bench.client()

    passed = client.sends(peer.frame(peer.message((1, kind), (kind, fields + LATER))))

    assert passed == [peer.command(kind, (1, TOPIC), (2, 7))]


@pytest.mark.parametrize("cut", [4, 11, 20])
def test_a_lookup_that_comes_in_pieces_is_written_anew_all_the_same(bench: Bench, cut: int) -> None:
    """Wherever the pieces meet, and what follows is untouched."""
    lookup = peer.command(23, (1, TOPIC), (2, 7), (7, "internal"))
    client = bench.client()

    assert client.sends(lookup[:cut]) == []
    assert client.sends(lookup[cut:] + peer.PING) == [
        peer.command(23, (1, TOPIC), (2, 7)), peer.PING,
    ]  # fmt: skip

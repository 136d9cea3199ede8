"""The numbers of connections have bounds."""

from __future__ import annotations

import pytest

from coordinator.gate.engine.close_reason import CloseReason
from coordinator.gate.engine.connection_limits import ConnectionLimits, host_of


def test_one_more_than_there_may_be_is_refused_until_one_leaves() -> None:
    """This holds for every client, and a refused one is not counted."""
    limits = ConnectionLimits(total=2, per_host=2)

    assert [limits.enter(f"10.0.0.{n}") for n in range(4)] == [
        None,
        None,
        CloseReason.TOO_MANY,
        CloseReason.TOO_MANY,
    ]
    limits.leave("10.0.0.0")
    assert limits.enter("10.0.0.3") is None
    assert limits.count == 2


def test_a_host_has_a_bound_of_its_own() -> None:
    """Others still come in, and it is forgotten when all of its connections are over."""
    limits = ConnectionLimits(total=10, per_host=1)

    assert limits.enter("10.0.0.1") is None
    assert limits.enter("10.0.0.1") is CloseReason.TOO_MANY_OF_HOST
    assert limits.enter("10.0.0.2") is None
    for address in ("10.0.0.1", "10.0.0.2"):
        limits.leave(address)
    assert (limits.count, dict(limits._of_host)) == (0, {})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_what_one_machine_has_to_itself_is_one_host(one: str, other: str, *, same: bool) -> None:
    """The first 64 bits of IPv6; IPv4 as it is, written either way."""
    assert (host_of(one) == host_of(other)) is same

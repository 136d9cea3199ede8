"""The certificate of a parent is the sum of those of the groups below it, or says why there is none."""

from __future__ import annotations

from coordinator.core.certificate.statement import Basis, Certificate, Holder
from coordinator.core.certificate.trees import certificate_of_all
from coordinator.core.model import Dimension, Rates, ResourceGroup

OF = Dimension.PUBLISH_MESSAGES
SHOP = ResourceGroup("shop", Rates(publish_messages=1_000))


def of(group: str, **most: tuple[int, Basis]) -> Certificate:
    """Return the certificate of a group below, by broker."""
    holders = tuple(Holder(broker, *each) for broker, each in most.items())
    total = sum(each.most for each in holders)
    return Certificate(group, OF, 900, total, newcomer=3, burst=5, holders=holders)


def test_holders_and_parts_add_up_by_broker() -> None:
    """The least certain basis of a broker is told."""
    found = certificate_of_all(
        SHOP,
        OF,
        [
            of("web", b1=(100, Basis.OWN), b2=(300, Basis.ANNOUNCED)),
            of("orders", b1=(50, Basis.OWN), b2=(200, Basis.LATE), b3=(10, Basis.DEPARTED)),
            of("mail", b2=(1, Basis.RESERVE)),
        ],
    )

    assert (found.group, found.limit, found.most) == ("shop", 1_000, 661)
    assert (found.newcomer, found.burst, found.obstacle) == (9, 15, "")
    assert found.holders == (
        Holder("b1", 150, Basis.OWN),
        Holder("b2", 501, Basis.LATE),
        Holder("b3", 10, Basis.DEPARTED),
    )


def test_nothing_is_certified_of_a_parent_if_nothing_is_of_a_child() -> None:
    """The obstacle names the child."""
    nothing = Certificate("web", OF, 900, None, 0, 0, obstacle="this sidecar is not a member")

    found = certificate_of_all(SHOP, OF, [of("orders", b1=(50, Basis.OWN)), nothing])
    assert (found.limit, found.most, found.holders) == (1_000, None, ())
    assert found.sentence() == (
        "Nothing can be said of what all may hold together: of web, this sidecar is not a member."
    )

"""A sidecar tells of groups in a tree: parts, loans, certificates, previews and the reasons."""

from __future__ import annotations

import pytest

from coordinator.core.events import GroupsChanged, ParticipantsChanged
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    MonitoringClass,
    Rates,
    ResourceGroup,
)
from coordinator.core.state import CoordinatorState
from coordinator.core.transfer.policies import BALANCED, STRICT
from coordinator.insight.model import explain, settling, what_if
from coordinator.insight.model.preview import preview
from coordinator.insight.model.trees import TreeGroupView, roots, tree_view
from coordinator.simulation.stage import Parameters
from tests.simulation.tree_scenarios import idle_guarantee

pytestmark = pytest.mark.slow

OF = Dimension.PUBLISH_MESSAGES


class Sidecar:
    """One sidecar of S26 at a second; ``orders`` claims its guarantee at 30 s, at two other brokers."""

    def __init__(self, second: int, policy: str = BALANCED) -> None:
        tree = idle_guarantee(Parameters(seed=1, policy=policy))
        tree.stage.world.schedule.run_until(second * NANOS_PER_SECOND)
        host = tree.stage.world.hosts[tree.stage.names[2]]
        self.state: CoordinatorState = host.state
        self.now_ns = host.now_ns

    def sentence(self, group: str) -> str:
        """Explain a group's limit at this sidecar."""
        return explain.explain(self.state, group, OF, None, self.now_ns).sentence

    def row(self, group: str) -> TreeGroupView:
        """Return a group's row in its tree."""
        tree = tree_view(self.state, group, OF)
        assert tree is not None
        return next(row for row in tree.groups if row.group == group)


@pytest.fixture(scope="module")
def lent() -> Sidecar:
    """While the guaranteed group is idle."""
    return Sidecar(28)


@pytest.fixture(scope="module")
def claimed() -> Sidecar:
    """After it has claimed its guarantee back."""
    return Sidecar(40)


def test_a_tree_tells_what_each_group_has_and_borrows(lent: Sidecar, claimed: Sidecar) -> None:
    """A loan is what is used beyond that which all would leave; it is gone once that is claimed."""
    assert roots(lent.state) == ("shop",)
    tree = tree_view(lent.state, "batch", OF)
    assert tree is not None
    assert [(row.group, row.level, row.parent) for row in tree.groups] == [
        ("shop", 0, ""),
        ("batch", 1, "shop"),
        ("orders", 1, "shop"),
        ("web", 1, "shop"),
    ]
    web, orders, batch = (lent.row(name) for name in ("web", "orders", "batch"))
    assert (web.part, web.entitled, web.admitted, web.borrowed) == (700, 100, 700, 600)
    assert (web.limit, batch.limit, web.wants, orders.wants) == (1_000, 300, None, 0)
    assert (orders.part, orders.guarantee, orders.entitled, orders.borrowed) == (0, 600, 700, 0)
    assert (claimed.row("web").part, claimed.row("web").borrowed) == (100, 0)
    assert lent.row("shop").borrowed == claimed.row("orders").borrowed == 0


def test_an_explanation_tells_what_is_lent_and_borrowed(lent: Sidecar, claimed: Sidecar) -> None:
    """After the reason of the own limit, which is a part of the group's part."""
    assert lent.sentence("web") == (
        "5 brokers want more messages than there are, so each is cut at the same level: broker-3 gets "
        "140/s of the 700/s. web has 700/s of the 1,000/s of shop now; it is guaranteed 0/s, and would "
        "have 100/s if all groups wanted everything. 600/s are borrowed of shop, claimable at once."
    )
    assert lent.sentence("orders").endswith("It lends 700/s, and gets it back as it wants it.")
    assert lent.sentence("shop") == (
        "shop has no traffic of its own: its 1,000/s are shared among batch, orders, web."
    )
    assert "borrowed" not in claimed.sentence("web")
    assert "lends" not in claimed.sentence("orders")


def test_certificates_of_a_tree_add_up(lent: Sidecar, claimed: Sidecar) -> None:
    """The root's is the sum of those below, though it has no traffic of its own."""
    for seen in (lent, claimed):
        most = {}
        for name in ("shop", "orders", "web", "batch"):
            (found,) = explain.certificates(seen.state, name, seen.now_ns)
            most[name] = found.most or 0
            assert len(found.holders) == 5
        assert most["shop"] == most["orders"] + most["web"] + most["batch"] == 1_000


def test_a_settled_tree_is_settled_for_every_group(lent: Sidecar) -> None:
    """Each is judged by its part, not by its own limit."""
    for name in ("shop", "orders", "web", "batch"):
        assert settling.residual_permille(lent.state, name, OF) == 0
    assert what_if.would_change(lent.state, "web", OF, None) == ()


def child(limit: int | None = None, guarantee: int | None = None) -> ResourceGroup:
    """Return another definition of ``web``."""
    guarantees = Rates(publish_messages=guarantee)
    return ResourceGroup("web", Rates(publish_messages=limit), parent="shop", guarantees=guarantees)


def targets(seen: Sidecar, changed: ResourceGroup) -> tuple[int, int]:
    """Return the sums of all targets before a change and after it."""
    (found,) = preview(seen.state, changed)
    return (
        sum(each.now or 0 for each in found.brokers),
        sum(each.then or 0 for each in found.brokers),
    )


def test_a_preview_counts_with_the_whole_tree(lent: Sidecar, claimed: Sidecar) -> None:
    """A lower cap, a guarantee, another root's limit, and a group that leaves the tree."""
    assert targets(lent, child(limit=100)) == (700, 100)
    assert targets(claimed, child(guarantee=400)) == (100, 400)
    assert targets(claimed, ResourceGroup("shop", Rates(publish_messages=2_000))) == (1_000, 2_000)
    assert targets(claimed, ResourceGroup("web", Rates(publish_messages=900))) == (100, 900)


def test_a_parent_that_makes_no_tree_is_told() -> None:
    """A definition that another tool wrote does not count, and the explanation says so."""
    seen = Sidecar(28)
    strange = ResourceGroup("web", Rates(publish_messages=5), parent="gone")
    seen.state.handle(GroupsChanged((strange,)), seen.now_ns)
    assert "Its parent gone does not count" in seen.sentence("web")
    assert tree_view(seen.state, "web", OF) is None
    assert roots(seen.state) == ()


def test_clients_that_belong_to_a_parent_itself_are_told(lent: Sidecar) -> None:
    """They get nothing of what the children leave."""
    seen = Sidecar(28)
    seen.state.handle(ParticipantsChanged("shop", MonitoringClass.PUBLISH, 1), seen.now_ns)
    assert "What belongs to it itself gets nothing" in seen.sentence("shop")
    assert "gets nothing" not in lent.sentence("shop")


def test_of_a_strict_root_the_quota_is_told_and_the_certificate_is_its_limit() -> None:
    """The books prove it, and not the sum of the limits that others announce."""
    strict = Sidecar(28, STRICT)

    told = "This broker's quota of shop, which is strict, is 200/s: its limits of all groups below shop"
    assert told in strict.sentence("web")
    assert told in strict.sentence("shop")
    group = (strict.state.groups or {})["shop"]
    certificate = strict.state.certificate(group, OF, strict.now_ns)
    assert (certificate.most, certificate.newcomer, certificate.holders) == (1_000, 0, ())
    assert "quota" not in Sidecar(28).sentence("web")

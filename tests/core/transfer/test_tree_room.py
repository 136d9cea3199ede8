"""The room for a raise in a tree is the rest that all others leave at every level."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core.allocation.forest import resolve
from coordinator.core.allocation.parts import Parts
from coordinator.core.allocation.splits import Splits
from coordinator.core.model import (
    Dimension,
    GroupUsage,
    LimitKey,
    Member,
    MonitoringClass,
    Rates,
    Usage,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.tree_room import TreeRoom
from coordinator.core.usage.map import UsageMap
from tests.core.tree_groups import group

OF = Dimension.PUBLISH_MESSAGES
OWN, PEER, THIRD = "b0", "b1", "b2"
#: No reserves, so that the sums are easy to follow; the test of reserves has some.
SETTINGS = CoreSettings(broker=OWN, arrival_reserve_permille=0)


TREE = (
    group("shop", 1_000),
    group("orders", None, "shop"),
    group("office", 500, "shop"),
    group("web", 400, "office"),
    group("mail", None, "office"),
)


@dataclass
class Reports:
    """The reports of the others, by broker and group: the limit in force, and the ceiling."""

    held: dict[tuple[str, str], tuple[int | None, int | None]] = field(default_factory=dict)
    capped: dict[LimitKey, frozenset[str]] = field(default_factory=dict)
    settings: CoreSettings = SETTINGS

    def room(self, name: str, **own: int) -> int:
        """Return the highest limit of a group that is safe here, with these own limits."""
        limits = {each: Rates(publish_messages=rate) for each, rate in own.items()}
        return self.made().room(name, OF, limits)

    def made(self) -> TreeRoom:
        """Return the rooms by these reports."""
        groups, forest = resolve(TREE)
        members = {name: Member(name, 7) for name in (OWN, PEER, THIRD)}
        usage = UsageMap(OWN)
        usage.set_members(members)
        for broker in (PEER, THIRD):
            entries = tuple(
                GroupUsage(
                    name,
                    1,
                    {
                        MonitoringClass.PUBLISH: Usage(
                            messages=1,
                            messages_demand=None,
                            participants=1,
                            messages_limit=limit,
                            messages_ceiling=ceiling,
                        )
                    },
                )
                for (who, name), (limit, ceiling) in self.held.items()
                if who == broker
            )
            usage.take(UsageReport(broker, 7, 1, 1_000_000_000, entries), 0)
        parts = Parts(forest, groups, members, usage, self.settings)
        splits = Splits(members, usage, self.settings, parts)
        return TreeRoom(forest, groups, members, usage, splits, self.capped, self.settings)


def test_the_least_room_of_all_levels_counts() -> None:
    """The own cap, the branch's, or the root's: each less what all others hold below it."""
    assert Reports().room("web") == 400
    assert Reports({(PEER, "web"): (100, None)}).room("web") == 300
    assert Reports({(PEER, "mail"): (450, None)}).room("web") == 50
    assert Reports({(PEER, "orders"): (980, None)}).room("web") == 20
    assert Reports({(PEER, "orders"): (600, None), (THIRD, "mail"): (390, None)}).room("web") == 10


def test_ceilings_and_the_own_limits_of_other_groups_count_in_full() -> None:
    """A broker may reach its ceiling before it reports again; the own limit of the group may grow."""
    assert Reports({(PEER, "orders"): (100, 950)}).room("web") == 50
    assert Reports({(PEER, "orders"): (100, 50)}).room("web") == 400
    assert Reports().room("web", orders=700, mail=150, web=30) == 150
    assert Reports().room("orders", web=300, orders=30) == 700


def test_a_broker_that_does_not_know_a_limit_yet_may_hold_all_that_the_group_may() -> None:
    """Until it reports one."""
    assert Reports({(PEER, "web"): (None, None)}).room("mail") == 100


def test_members_that_take_no_part_hold_their_reserves() -> None:
    """Of what each group is entitled to, so that all of them together hold a part of the root's limit."""
    settings = CoreSettings(broker=OWN, arrival_reserve_permille=30)
    # orders is entitled to 500 and each group of the office to 250: a reserve of 5, and of 2.
    assert Reports(settings=settings).room("orders", web=0, mail=0) == 1_000 - 2 * (5 + 2 + 2)
    # Of its own groups without a limit in force yet, this broker is about to hold the reserves, too.
    assert Reports(settings=settings).room("orders") == 1_000 - 2 * (5 + 2 + 2) - 2 - 2


def test_announcements_that_are_capped_count_as_an_equal_part() -> None:
    """The target counts where that is higher; a liar cannot keep the others from raising themselves."""
    lies = Reports({(PEER, "orders"): (1_000, None), (THIRD, "orders"): (10, None)})
    assert lies.room("web") == 0 - 10
    lies.capped = {("orders", OF): frozenset({PEER})}
    assert lies.room("web") == 400


def test_the_brokers_to_ask_are_those_of_any_group_of_the_tree() -> None:
    """A broker without clients in this group holds quota of the others."""
    made = Reports({(PEER, "orders"): (1, None), (THIRD, "mail"): (1, None)}).made()
    assert made.peers("web", MonitoringClass.PUBLISH) == {PEER, THIRD}
    assert made.peers("web", MonitoringClass.DISPATCH) == set()

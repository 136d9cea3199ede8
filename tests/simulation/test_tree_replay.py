"""A recorded tree has the definitions that its recording lets one see, and changes that make a tree."""

from __future__ import annotations

import pytest

from coordinator.core.model import Dimension, MonitoringClass, Rates, ResourceGroup
from coordinator.core.transfer.tree_rules import TreeFault
from coordinator.simulation.replay import BrokerStory, Change, ReplayInput, replay_together
from coordinator.simulation.tree_replay import TreePlace, planted

MESSAGES = Dimension.PUBLISH_MESSAGES
PLACES = {
    "shop": TreePlace("shop"),
    "orders": TreePlace("shop", "shop", guarantees=Rates(publish_messages=600)),
    "web": TreePlace("shop", "shop", weight=2),
    "batch": TreePlace("shop", "shop"),
}


def recorded(wanted: int = 0, **caps: int) -> dict[str, ReplayInput]:
    """Stories of groups that may have that much, each wanted as much at one broker for ten seconds."""
    told = BrokerStory([wanted] * 10, [wanted] * 10, [wanted * 100] * 10)
    return {
        name: ReplayInput(
            MonitoringClass.PUBLISH,
            [(0, ResourceGroup(name, Rates(publish_messages=cap)))],
            {} if name == "shop" else {"a": told},
            {MESSAGES: [cap] * 10},
        )
        for name, cap in caps.items()
    }


def caps_of(stories: dict[str, ReplayInput]) -> dict[str, int | None]:
    """The most that each group may have, published messages per second."""
    return {
        name: story.definitions[0][1].limits.publish_messages for name, story in stories.items()
    }


def test_a_group_with_its_parents_limit_gains_by_a_higher_one_and_others_do_not() -> None:
    """A recording does not tell a limit of its own from its parent's."""
    stories = recorded(shop=1_000, orders=1_000, web=1_000, batch=300)
    change = {"shop": Change(limits={MESSAGES: 2_000})}

    after = planted(stories, PLACES, change)

    assert caps_of(after) == {"shop": 2_000, "orders": 2_000, "web": 2_000, "batch": 300}
    assert after["web"].definitions[0][1].weight == 2
    assert caps_of(planted(stories, PLACES, {})) == caps_of(stories)


@pytest.mark.parametrize(
    "change",
    [Change(limits={MESSAGES: 500}), Change(law="pulsar"), Change(overshoot_policy="eager")],
)
def test_a_change_that_makes_no_tree_is_refused(change: Change) -> None:
    """A limit below the guarantees, another law, another policy."""
    with pytest.raises(TreeFault):
        planted(recorded(shop=1_000, orders=1_000), PLACES, {"shop": change})


def test_groups_of_a_tree_are_played_together() -> None:
    """All want the whole limit: orders has its guarantee and a quarter of the rest, web twice as much."""
    stories = planted(recorded(1_000, shop=1_000, orders=1_000, web=1_000, batch=1_000), PLACES, {})
    found = replay_together(list(stories.values()))
    rates = {name: figures[MESSAGES].admitted for name, figures in found.items()}
    assert rates == pytest.approx({"orders": 700, "web": 200, "batch": 100}, abs=10)

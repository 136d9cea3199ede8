"""A recorded tree of groups, to be played again as a whole: what one group gains its siblings lose.

The tree has the definitions that it had last. A recording has the most that each group may have, not what
it was defined with: a group with its parent's limit is taken to have none of its own, so that it gains by
a higher limit of its parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coordinator.core.allocation.forest import resolve
from coordinator.core.model import Attachments, Dimension, Rates, ResourceGroup
from coordinator.core.transfer.tree_rules import check_tree
from coordinator.simulation.replay import Change, ReplayInput


@dataclass(frozen=True, slots=True)
class TreePlace:
    """A group's place in its tree.

    Args:
        root: of the tree.
        parent: of the group; empty for the root.
        weight: among its siblings.
        guarantees: per second.
    """

    root: str
    parent: str = ""
    weight: int = 1
    guarantees: Rates = field(default_factory=Rates)


def planted(
    stories: Mapping[str, ReplayInput],
    places: Mapping[str, TreePlace],
    changes: Mapping[str, Change],
) -> dict[str, ReplayInput]:
    """Return the stories of a tree, with its definitions and these changes of them.

    Args:
        stories: of all its groups, by name.
        places: of the same groups.
        changes: of some of them.

    Raises:
        TreeFault: with the changes they make no tree.
    """
    recorded = {name: story.definitions[-1][1] for name, story in stories.items()}
    groups = {
        name: replace(
            group,
            limits=_own(group, recorded.get(places[name].parent)),
            parent=places[name].parent,
            weight=places[name].weight,
            guarantees=places[name].guarantees,
        )
        for name, group in recorded.items()
    }
    groups |= {name: change.of(groups[name]) for name, change in changes.items() if name in groups}
    for name in changes.keys() & groups.keys():
        check_tree(groups[name], groups, Attachments())
    capped, _ = resolve(groups.values())
    return {
        name: replace(story, definitions=[(0, replace(groups[name], limits=capped[name].limits))])
        for name, story in stories.items()
    }


def _own(group: ResourceGroup, above: ResourceGroup | None) -> Rates:
    """Return the limits that a group was defined with, as far as a recording tells."""
    if above is None:
        return group.limits
    caps = {dimension: group.limits.of(dimension) for dimension in Dimension}
    return Rates.from_mapping(
        {each: None if cap == above.limits.of(each) else cap for each, cap in caps.items()}
    )

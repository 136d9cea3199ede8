"""Scenarios of trees of groups, and of roles in them: S26 to S31.

They are judged by what each group has, not by how one limit is shared, so they are no rows of the table
of scenarios.py, which runs under every law and policy: a tree has one law, and one policy but for its
root, which has that of the run. Each names the seconds at which the parts must be in force, and what they
must be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from coordinator.core.model import Dimension, MonitoringClass, Rates, ResourceGroup
from coordinator.core.transfer.policies import BALANCED
from coordinator.simulation.stage import WARM_UP_S, Parameters, Stage
from coordinator.simulation.traffic import Constant

LIMIT = 1_000
"""Messages per second of every root."""

_SETTLES_S = 2
"""A claimed guarantee is back within two rounds of one second."""


@dataclass
class TreeStage:
    """A stage with a tree of groups, whose roots share `LIMIT`.

    Args:
        stage: the stage.
        expected: what is in force at all brokers together, by second and group.
    """

    stage: Stage
    expected: dict[int, Mapping[str, int]] = field(default_factory=dict)
    #: What was in force at those seconds.
    seen: dict[int, Mapping[str, int]] = field(default_factory=dict)

    def plant(self, name: str, parent: str = "", **settings: int) -> None:
        """Define a group.

        Args:
            name: of the group.
            parent: of the group; empty for a root.
            settings: ``limit`` and ``guarantee`` of published messages, and ``weight``.
        """
        limit = settings.get("limit", None if parent else LIMIT)
        self.stage.world.plant(
            ResourceGroup(
                name,
                Rates(publish_messages=limit),
                parent=parent,
                guarantees=Rates(publish_messages=settings.get("guarantee")),
                weight=settings.get("weight", 1),
                overshoot_policy=BALANCED if parent else self.stage.parameters.policy,
            )
        )

    def start(self, **wants: int) -> None:
        """Start every broker, each with this demand per group."""
        sources = {name: Constant(rate) for name, rate in wants.items()}
        for broker in self.stage.names:
            self.stage.world.start(broker, dict(sources), dimension=Dimension.PUBLISH_MESSAGES)

    def want(self, second: int, group: str, rate: int, brokers: int | None = None) -> None:
        """Set the demand of a group at the first brokers from a second on."""
        for broker in self.stage.names[:brokers]:
            self.stage.at(second, partial(self.load, broker, group, rate))

    def load(self, broker: str, group: str, rate: int | None) -> None:
        """Set the demand of a group at a broker that is up now; None disconnects its clients."""
        self.replace(broker, group, Constant(rate))

    def replace(self, broker: str, group: str, source: Constant) -> None:
        """Set the clients of a group at a broker that is up now."""
        host = self.stage.world.hosts.get(broker)
        if host is not None:
            host.loads[group, MonitoringClass.PUBLISH].source = source

    def expect(self, second: int, **parts: int) -> None:
        """State what is in force from two rounds after a second on."""
        self.expected[second + _SETTLES_S] = parts
        self.stage.at(second + _SETTLES_S, partial(self._look, second + _SETTLES_S))

    def _look(self, second: int) -> None:
        world = self.stage.world
        self.seen[second] = {name: world.in_force(name) for name in self.expected[second]}


def idle_guarantee(parameters: Parameters) -> TreeStage:
    """S26: an idle guarantee of 600 of 1,000 is borrowed, claimed back at two brokers, and lent again."""
    tree = TreeStage(Stage(parameters, seconds=60))
    tree.plant("shop")
    tree.plant("orders", "shop", guarantee=600)
    tree.plant("web", "shop")
    tree.plant("batch", "shop", limit=300, weight=2)
    tree.start(orders=0, web=LIMIT, batch=100)
    tree.expect(WARM_UP_S, shop=LIMIT, orders=0, web=700, batch=300)
    tree.want(30, "orders", LIMIT, brokers=2)
    tree.expect(30, shop=LIMIT, orders=700, web=100, batch=200)
    tree.want(45, "orders", 0)
    tree.expect(45, shop=LIMIT, orders=0, web=700, batch=300)
    return tree


def tree_flash_crowd(parameters: Parameters) -> TreeStage:
    """S27: a group without a guarantee jumps to ten times the limit; two guarantees stay as they are."""
    tree = TreeStage(Stage(parameters, seconds=60))
    tree.plant("shop")
    tree.plant("orders", "shop", guarantee=500)
    tree.plant("bills", "shop", guarantee=200)
    tree.plant("web", "shop")
    tree.start(orders=LIMIT, bills=200 // parameters.brokers, web=20)
    tree.want(30, "web", 10 * LIMIT)
    # 300 are left beyond the guarantees, for two that want more; bills hides that it wants no more.
    tree.expect(30, shop=LIMIT, orders=650, bills=200, web=150)
    tree.want(45, "web", 0)
    # The crowd's last messages wait for their turn.
    tree.expect(52, shop=LIMIT, orders=800, bills=200, web=0)
    return tree


def three_levels(parameters: Parameters) -> TreeStage:
    """S28: what a group below a branch leaves goes to its siblings first, then to the other branch."""
    tree = TreeStage(Stage(parameters, seconds=60))
    tree.plant("company")
    tree.plant("shop", "company", guarantee=600)
    tree.plant("orders", "shop", guarantee=400)
    tree.plant("web", "shop")
    tree.plant("lab", "company", limit=700)
    tree.plant("jobs", "lab")
    tree.start(orders=LIMIT, web=LIMIT, jobs=LIMIT)
    # shop has 600 and half of the other 400, of which orders has 400 and half of the rest.
    tree.expect(WARM_UP_S, company=LIMIT, shop=800, orders=600, web=200, lab=200, jobs=200)
    tree.want(30, "orders", 0)
    tree.expect(30, company=LIMIT, shop=800, orders=0, web=800, lab=200, jobs=200)
    tree.want(45, "web", 0)
    tree.expect(45, company=LIMIT, lab=700, jobs=700, shop=300)
    return tree


def greedy_sibling(parameters: Parameters) -> TreeStage:
    """S29: the guaranteed group comes to brokers at which its greedy sibling has no clients."""
    tree = TreeStage(Stage(parameters, seconds=50))
    tree.plant("shop")
    tree.plant("orders", "shop", guarantee=800)
    tree.plant("web", "shop")
    first, *rest = tree.stage.names
    world = tree.stage.world
    world.start(first, {"orders": Constant(None)}, dimension=Dimension.PUBLISH_MESSAGES)
    for broker in rest:
        world.start(broker, {"web": Constant(LIMIT)}, dimension=Dimension.PUBLISH_MESSAGES)
    tree.want(30, "orders", 2 * LIMIT, brokers=1)
    tree.expect(30, shop=LIMIT, orders=900, web=100)
    return tree


def weighted(parameters: Parameters) -> TreeStage:
    """S30: weights 1:2:4 share 700 as 100, 200 and 400; what one leaves is shared 1:2."""
    tree = TreeStage(Stage(parameters, seconds=50))
    tree.plant("shop", limit=700)
    tree.plant("one", "shop")
    tree.plant("two", "shop", weight=2)
    tree.plant("four", "shop", weight=4)
    tree.start(one=LIMIT, two=LIMIT, four=LIMIT)
    tree.expect(WARM_UP_S, shop=700, one=100, two=200, four=400)
    tree.want(30, "four", 0)
    tree.expect(30, shop=700, one=233, two=467, four=0)
    return tree


def many_connections(parameters: Parameters) -> TreeStage:
    """S31: a role with hundreds of connections at each broker takes nothing from one with a single one.

    Each role is attached to a group of its own. The connections of the first one come and go, another
    number at each broker; each of them wants a fiftieth of the limit.
    """
    tree = TreeStage(Stage(parameters, seconds=50))
    tree.plant("clients")
    tree.plant("batch", "clients")
    tree.plant("web", "clients", guarantee=400)
    chance = random.Random(parameters.seed)
    for broker in tree.stage.names:
        loads = {"batch": _connected(chance.randrange(100, 900)), "web": Constant(None)}
        tree.stage.world.start(broker, loads, dimension=Dimension.PUBLISH_MESSAGES)
    tree.expect(WARM_UP_S, clients=LIMIT, batch=LIMIT, web=0)
    tree.want(30, "web", 2 * LIMIT, brokers=1)
    tree.expect(30, clients=LIMIT, batch=300, web=700)
    for second in range(20, 48):
        broker, connections = chance.choice(tree.stage.names), chance.randrange(100, 900)
        tree.stage.at(second, partial(tree.replace, broker, "batch", _connected(connections)))
    tree.expect(45, clients=LIMIT, batch=300, web=700)
    return tree


def _connected(connections: int) -> Constant:
    """Connections of a role at one broker, each with a topic."""
    return Constant(connections * LIMIT // 50, topics=connections)


TREE_SCENARIOS: Mapping[str, Callable[[Parameters], TreeStage]] = {
    "S26": idle_guarantee,
    "S27": tree_flash_crowd,
    "S28": three_levels,
    "S29": greedy_sibling,
    "S30": weighted,
    "S31": many_connections,
}
"""The scenarios by name."""

"""No definitions that a store may hold, in whatever order, break a core.

The API refuses many of them, but two writers may break a rule together, and other tools may write to the
store. The cores are checked after every event (``CoordinatorState.validate``).
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Final

import pytest

from coordinator.core.allocation.laws import JOINT_LAW, LAWS
from coordinator.core.allocation.splitting import WEIGHTS
from coordinator.core.demand.observing import ENFORCEMENTS
from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    ConnectionState,
    EscrowChanged,
    GroupsChanged,
    ParticipantsChanged,
)
from coordinator.core.model import (
    DIMENSIONS_OF,
    MAX_COUNT,
    Dimension,
    EscrowRecord,
    Fractions,
    MonitoringClass,
    Rates,
    ResourceGroup,
    TrafficKey,
)
from coordinator.core.traffic import Traffic
from coordinator.core.transfer.policies import BALANCED, PARTITION_POLICIES, POLICIES, STRICT
from coordinator.insight.model import explain
from tests.core.cluster import STEP_NS, Cluster

NAMES: Final = "abcde"
LIMITS: Final = (None, None, 0, 1, 2, 7, 100, 3_000, 10**7, MAX_COUNT)
SMALL: Final = 10**6


class AnyCluster(Cluster):
    """Cores with any definitions, whose brokers, clients and connections come and go."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(limit=0, loses=lambda: dice.random() < 0.1)
        self._dice = dice
        self._definitions: dict[str, ResourceGroup] = {}
        self._records: dict[str, EscrowRecord] = {}
        #: Messages per step that the clients of a broker want, by group and class.
        self._wanted: dict[str, dict[TrafficKey, int]] = {}

    def tell_group(self, broker: str) -> None:
        self.send(broker, GroupsChanged(tuple(self._definitions.values())))

    def escrow(self) -> EscrowChanged:
        return EscrowChanged(tuple(self._records.values()))

    def write_escrow(self, record: EscrowRecord) -> None:
        known = self._records.get(record.group)
        if record.version == (-1 if known is None else known.version):
            self.version += 1
            generation = self.version if known is None else known.generation
            written = replace(record, generation=generation, version=record.version + 1)
            self._records[record.group] = written
            for broker in list(self.states):
                self.send(broker, self.escrow())

    def define(self) -> None:
        """Change, create or delete a group; a sidecar may miss that until the next change."""
        dice, name = self._dice, self._dice.choice(NAMES)
        self.version += 1
        if name in self._definitions and dice.random() < 0.2:
            del self._definitions[name]
        else:
            self._definitions[name] = self._any_group(name)
        for broker in list(self.states):
            if dice.random() < 0.95:
                self.tell_group(broker)

    def _any_group(self, name: str) -> ResourceGroup:
        dice, of_tree = self._dice, self._dice.random() < 0.6
        limits = Rates(*(dice.choice(LIMITS) for _ in Dimension))
        return ResourceGroup(
            name,
            limits,
            law=JOINT_LAW if of_tree else dice.choice(list(LAWS)),
            weights=dice.choice(list(WEIGHTS)),
            overshoot_policy=dice.choice((BALANCED, STRICT) if of_tree else POLICIES),
            partition_policy=dice.choice(PARTITION_POLICIES),
            enforcement=dice.choice((ENFORCEMENTS[0],) * 9 + ENFORCEMENTS),
            observes=dice.choice(("", "", "", "", *NAMES)),
            configuration_version=self.version,
            parent=dice.choice(("", "", "", "", *NAMES)),
            guarantees=Rates(*(dice.choice((None, 0, 1, 50, SMALL)) for _ in Dimension)),
            weight=dice.choice((1, 1, 2, 1_000)),
            burst_seconds=dice.choice((0, 0, 5)),
            fractions=self._fractions(limits),
        )

    def _fractions(self, limits: Rates) -> Fractions:
        return tuple(
            (each, Fraction(self._dice.randrange(1, 1_000), 1_000))
            for each in (Dimension.PUBLISH_MESSAGES, Dimension.DISPATCH_MESSAGES)
            if (limits.of(each) or SMALL) < SMALL and self._dice.random() < 0.3
        )

    def mishap(self) -> None:
        """Anything else that may happen to a sidecar."""
        dice, broker = self._dice, f"b{self._dice.randrange(1, 5)}"
        if broker not in self.states:
            self.start(broker)
            return
        match dice.randrange(6):
            case 0 | 1:
                self._come_or_go(broker, dice.choice(NAMES), dice.choice(list(MonitoringClass)))
            case 2:
                self.send(broker, ConnectionChanged(dice.choice(list(ConnectionState))))
            case 3:
                self.send(broker, BrokerAvailabilityChanged(answering=dice.random() < 0.7))
            case 4:
                self.deaf = {each for each in self.states if dice.random() < 0.2}
            case _ if len(self.states) > 1:
                self.kill(broker)
                self._wanted.pop(broker, None)
                self._members.pop(broker, None)
                self.tell_members()

    def _come_or_go(self, broker: str, group: str, monitoring_class: MonitoringClass) -> None:
        wanted, key = self._wanted.setdefault(broker, {}), (group, monitoring_class)
        comes = wanted.pop(key, None) is None
        if comes:
            wanted[key] = self._dice.choice((0, 1, 5, 100, 1_000))
        self.send(broker, ParticipantsChanged(*key, int(comes)))

    def step(self) -> None:
        """50 ms pass, with the traffic that the limits admit."""
        self.now_ns += STEP_NS
        for broker in list(self.states):
            wanted = self._wanted.get(broker, {}).items()
            self.count(broker, tuple(self._passed(broker, key, most) for key, most in wanted))

    def _passed(self, broker: str, key: TrafficKey, most: int) -> Traffic:
        dice, (group, monitoring_class) = self._dice, key
        limit = self.states[broker].limits().get(group, Rates()).of(DIMENSIONS_OF[key[1]][0])
        passed = most if limit is None else min(most, limit // 20 + (dice.random() < 0.05))
        held_ns = STEP_NS if passed < most else 0
        return Traffic(
            group,
            monitoring_class,
            passed,
            passed * dice.choice((1, 100, SMALL)),
            messages_held_ns=held_ns,
            bytes_held_ns=dice.choice((0, held_ns)),
            participants=1,
            topics=dice.randrange(1, 4),
            messages_owed=dice.choice((0, 0, 0, 1_000)),
        )

    def look(self) -> None:
        """Ask every sidecar for what it answers about its groups."""
        for state in self.states.values():
            for name in state.groups or {}:
                explain.group_view(state, name, self.now_ns)
                explain.certificates(state, name, self.now_ns)
                for dimension in Dimension:
                    explain.explain(state, name, dimension, None, self.now_ns)


@pytest.mark.parametrize("_play", range(10))
def test_no_definitions_in_whatever_order_break_a_core(_play: int) -> None:
    """Trees, strict roots, observers, every law and policy, from no limit to the largest number."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    dice = random.Random(seed)
    cluster = AnyCluster(dice)
    for broker in ("b1", "b2", "b3"):
        cluster.start(broker)
    for _ in range(300):
        if dice.random() < 0.15:
            cluster.define()
        if dice.random() < 0.25:
            cluster.mishap()
        if dice.random() < 0.05:
            cluster.look()
        cluster.step()

"""Native sidecars that hear each other, and brokers that do with their messages what Pulsar's do."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.core.model import NANOS_PER_SECOND, Attachments, Rates
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from tests.native.engine.test_entries import pulsars_quota

S = NANOS_PER_SECOND
C = 3_000


def url(broker: str) -> str:
    """Return the name that a broker reports under."""
    return f"pulsar://{broker}:6650"


class World:
    """Some sidecars that hear each other, and the table that all their brokers have."""

    def __init__(self, *brokers: str, in_trees: Collection[str] = (), **limits: int) -> None:
        self.now_ns = S
        self.sidecars = {name: Steering() for name in brokers}
        self.table: dict[str, dict[str, Amounts]] = {}
        self.groups = limits or {"g": C}
        for name, steering in self.sidecars.items():
            steering.configure(url(name), 1)
            steering.start(-60 * S)
            steering.set_members(brokers)
            whole = {g: Rates(publish_messages=c) for g, c in self.groups.items()}
            steering.set_whole(whole, in_trees)
            steering.set_attachments(Attachments({}, {"t/n": "g"}))
            self.see_records(steering)

    @staticmethod
    def see_records(steering: Steering) -> None:
        """Pulsar has every record as it should be."""
        for name, record in steering.records().items():
            steering.set_record(name, record)

    def limit(self, **limits: int) -> None:
        """Local limits of the group, by broker."""
        for name, limit in limits.items():
            self.sidecars[name].set_limits("g", Rates(publish_messages=limit))

    def say(self, broker: str, amounts: Mapping[str, Amounts], sidecar: str = "") -> None:
        """A message arrives everywhere."""
        self.table.setdefault(broker, {}).update(amounts)
        stands_in = bool(sidecar) and url(sidecar) != broker
        said = Statement(broker, amounts, sidecar, sidecar or broker, stands_in=stands_in)
        for steering in self.sidecars.values():
            steering.take(said, self.now_ns)

    def write(self, turns: int = 3) -> None:
        """Let each sidecar write, until all agree."""
        for _ in range(turns):
            self.now_ns += S // 5
            for name, steering in self.sidecars.items():
                steering.decide(self.now_ns)
                for broker, amounts in list(steering.to_write(self.now_ns)):
                    self.say(broker, amounts, name)

    def quotas(self, record: int = C // 2, group: str = "g") -> dict[str, int]:
        """Return the quota that each broker computes from the table."""
        rows = {name: row.get(group, Amounts()).messages for name, row in self.table.items()}
        total = sum(rows.values())
        return {
            name: pulsars_quota(record, rows.get(url(name), 0), total) for name in self.sidecars
        }


def busy(world: World, *names: str) -> None:
    """Let clients of these brokers wait all the time."""
    for name in names:
        count = NamespaceCount(messages=500, producers=1, throttles=9)
        world.sidecars[name].count({"t/n": count}, S // 2, world.now_ns)

"""Traffic of each role: what its connections pass at this broker, and how long they wait.

A role's limit is its group's; these counts only tell the roles apart that share one. The hot path adds to
one counter per participant, that of its namespace (namespaces.py). While any role is attached, this is
the *part* of a namespace that one role has: what it counted goes on to the namespace and to the role when
either is asked for. So a frame costs the same, with roles and without.

At most ``ROLES_MAX`` roles are told apart: beyond that, those without a participant are forgotten, and
then further ones are counted together as `OTHERS`, as is a role whose name no attachment could have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coordinator.core.model import MonitoringClass
from coordinator.core.owners import can_be_attached
from coordinator.gate.limits.counters import OTHERS, SharedCounter
from coordinator.gate.limits.namespaces import NamespaceCounter
from coordinator.insight.model.gate_views import RoleView

ROLES_MAX: Final = 1_000
"""The most roles with counters of their own, by role, group and class."""

_Key = tuple[str, str, MonitoringClass]


class RoleCounter(SharedCounter):
    """Traffic of one role and class at this broker since it was first seen."""

    __slots__ = ("_held_ns",)

    def __init__(self) -> None:
        super().__init__()
        self._held_ns = 0

    def held_ns(self, now_ns: int) -> int:
        """Return how long at least one participant has waited, for any limit."""
        self._held_ns += self._held.take_ns(now_ns)
        return self._held_ns


class RolePart(NamespaceCounter):
    """The part of a namespace's traffic that one role has.

    Args:
        whole: the namespace's counter.
        role: the role's.
    """

    __slots__ = ("_passed_on", "_role", "_whole")

    def __init__(self, whole: NamespaceCounter, role: RoleCounter) -> None:
        super().__init__(whole.key)
        self._whole = whole
        self._role = role
        self._passed_on = (0, 0)

    def joined(self, count: int) -> None:
        """Count participants that came, or left if negative."""
        super().joined(count)
        self._whole.joined(count)
        self._role.participants += count

    def wait(self, now_ns: int) -> None:
        """Count one more participant that waits."""
        self._whole.wait(now_ns)
        self._role.wait(now_ns)

    def go_on(self, now_ns: int) -> None:
        """Count one waiting participant less."""
        self._whole.go_on(now_ns)
        self._role.go_on(now_ns)

    def pass_on(self) -> None:
        """Add what was counted since the last call to the namespace and the role."""
        messages, size = self._passed_on
        for counter in (self._whole, self._role):
            counter.messages += self.messages - messages
            counter.bytes += self.bytes - size
        self._passed_on = (self.messages, self.bytes)


class RoleCounters:
    """The counters of all roles.

    Args:
        roles_max: the most counters.
    """

    def __init__(self, roles_max: int = ROLES_MAX) -> None:
        self._roles_max = roles_max
        self._roles: dict[_Key, RoleCounter] = {}
        self._parts: dict[tuple[NamespaceCounter, RoleCounter], RolePart] = {}

    def part(self, whole: NamespaceCounter, role: str, group: str) -> NamespaceCounter:
        """Return the part of a namespace that a role has, which is limited by this group."""
        counter = self._counter((role, group, whole.key.monitoring_class))
        found = self._parts.get((whole, counter))
        if found is None:
            found = self._parts[whole, counter] = RolePart(whole, counter)
        return found

    def settle(self) -> None:
        """Pass all counts on to namespaces and roles; forget parts without a participant."""
        for key, part in list(self._parts.items()):
            part.pass_on()
            if not part.participants:
                del self._parts[key]

    def views(self, now_ns: int) -> Iterator[RoleView]:
        """Yield the counts of each role."""
        self.settle()
        for (role, group, each), counter in self._roles.items():
            yield RoleView(
                role,
                group,
                each,
                counter.participants,
                counter.messages,
                counter.bytes,
                counter.held_ns(now_ns),
            )

    def _counter(self, key: _Key) -> RoleCounter:
        role, group, monitoring_class = key
        if not can_be_attached(role):
            key = (OTHERS, group, monitoring_class)
        if key not in self._roles and len(self._roles) >= self._roles_max:
            self.settle()
            self._roles = {key: each for key, each in self._roles.items() if each.participants}
        if key not in self._roles and len(self._roles) >= self._roles_max:
            key = (OTHERS, group, monitoring_class)
        return self._roles.setdefault(key, RoleCounter())

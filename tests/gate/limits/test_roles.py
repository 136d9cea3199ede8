"""The counters of roles: bounded, and without a loss for the namespaces whose parts they are."""

from __future__ import annotations

import random

from coordinator.core.model import MonitoringClass
from coordinator.core.traffic import NamespaceKey
from coordinator.gate.limits.counters import OTHERS
from coordinator.gate.limits.namespaces import NamespaceCounter, Namespaces
from coordinator.gate.limits.roles import RoleCounters
from coordinator.insight.model.gate_views import RoleView

MS = 1_000_000


def key(namespace: str = "n") -> NamespaceKey:
    """A namespace's publishes."""
    return NamespaceKey("t", namespace, ("g",), MonitoringClass.PUBLISH)


def by_role(roles: RoleCounters, now_ns: int = 0) -> dict[str, RoleView]:
    """The counts of each role."""
    return {view.role: view for view in roles.views(now_ns)}


def pass_messages(part: NamespaceCounter, messages: int) -> None:
    """Count messages of ten bytes, as the hot path does."""
    part.messages += messages
    part.bytes += 10 * messages


def test_what_roles_pass_adds_up_to_what_their_namespaces_pass() -> None:
    """At random: roles come, publish, are looked at, and leave."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    dice = random.Random(seed)
    roles, namespaces = RoleCounters(roles_max=4), Namespaces()
    live: list[NamespaceCounter] = []
    passed, collected = 0, 0
    for _ in range(2_000):
        act = dice.randrange(4)
        if act == 0:
            part = roles.part(
                namespaces.counter(key(dice.choice("ab"))), f"r{dice.randrange(8)}", "g"
            )
            part.joined(1)
            live.append(part)
        elif act == 1 and live:
            live.pop(dice.randrange(len(live))).joined(-1)
        elif act == 2 and live:
            count = dice.randrange(100)
            pass_messages(dice.choice(live), count)
            passed += count
        else:
            roles.settle()
            collected += sum(each.messages for each in namespaces.collect(0))
    roles.settle()
    collected += sum(each.messages for each in namespaces.collect(0))
    assert collected == passed
    assert len(by_role(roles)) <= 4 + 1


def test_beyond_the_bound_idle_roles_are_forgotten_and_then_others_counted_together() -> None:
    """A role with a participant is never forgotten."""
    roles, whole = RoleCounters(roles_max=2), NamespaceCounter(key())
    alice = roles.part(whole, "alice", "g")
    alice.joined(1)
    pass_messages(roles.part(whole, "idle", "g"), 7)
    bob = roles.part(whole, "bob", "g")
    bob.joined(1)
    assert set(by_role(roles)) == {"alice", "bob"}
    for name in ("carol", "dave"):
        part = roles.part(whole, name, "g")
        part.joined(1)
        pass_messages(part, 5)
    assert by_role(roles)[OTHERS].messages == 10
    assert whole.messages == 17


def test_a_role_is_held_while_any_of_its_participants_waits_and_so_is_its_namespace() -> None:
    """Two that wait at once count once, for the role and for the namespace."""
    roles, whole = RoleCounters(), NamespaceCounter(key())
    a, b = roles.part(whole, "a", "g"), roles.part(whole, "b", "g")
    for part in (a, a, b):
        part.joined(1)
    a.wait(0)
    a.wait(10 * MS)
    b.wait(20 * MS)
    a.go_on(30 * MS)
    a.go_on(40 * MS)
    b.go_on(50 * MS)
    held = {role: view.held_ns for role, view in by_role(roles, 90 * MS).items()}
    assert held == {"a": 40 * MS, "b": 30 * MS}
    counted = whole.collect(90 * MS)
    assert counted is not None
    assert counted.held_ns == 50 * MS

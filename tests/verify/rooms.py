"""The rooms of the measurement, each with the tests that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Room:
    """Some of the measured tests, in a process of their own.

    Args:
        name: for ``ONLY``.
        says: what it measures.
        paths: files and folders of its tests.
        side_by_side: whether the tests only compute, so that each processor may run one.
    """

    name: str
    says: str
    paths: tuple[str, ...]
    side_by_side: bool = False

    def has(self, test: str) -> bool:
        """Whether a test, by pytest's id, is one of the room."""
        return any(test.startswith((f"{path}/", f"{path}::")) for path in self.paths)


MINUTES_MAX: Final = 10
"""A room is ended then; what it has not measured counts as missed."""


def _integration(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/integration/test_{name}.py" for name in names)


ROOMS: Final = (
    Room(
        "limits",
        "publish limits: the sum, the shares, of topics, what is refused",
        _integration("limits", "strict", "topic_limits", "handling", "reopened_topics"),
    ),
    Room(
        "small-limits",
        "limits below one message per broker and second, published and consumed",
        _integration("small_limits"),
    ),
    Room(
        "laws",
        "the laws, tenants with all that is attached, and trees",
        _integration("laws", "tenants", "trees"),
    ),
    Room(
        "pip322",
        "how messages are held back: bursts, debts, reasons, managed limits, delays",
        _integration("pip322", "throttle_reasons", "managed_limits", "delayed", "bus_settings"),
    ),
    Room(
        "dispatch",
        "dispatch limits, and what arrives through them",
        _integration(
            "dispatch", "dispatch_shared", "nothing_is_lost", "same_as_direct", "java_clients"
        ),
    ),
    Room(
        "mishaps",
        "lost dependencies, dead peers, liars and roll-out",
        _integration("when_things_break", "hostile_bus", "bad_input", "roll_out", "reconciliation"),
    ),
    Room(
        "backlog",
        "backlog quotas and recordings",
        _integration(
            "backlog", "backlog_defaults", "backlog_labels", "recordings", "reports_of_pulsar"
        ),
    ),
    Room(
        "identity",
        "roles, certificates, tokens, and what borrows them",
        (
            *_integration("roles", "identity", "tokens", "hostile_roles"),
            "tests/attacks/test_borrowing.py",
        ),
    ),
    Room(
        "ways",
        "ways to a broker: listeners, proxies, WebSocket, functions, migration",
        _integration("addresses", "ways", "ipv6"),
    ),
    Room(
        "under-attack",
        "an honest client beside attackers in a process of their own",
        ("tests/attacks/test_under_attack.py",),
    ),
    Room("attacks", "attackers under load, and the clients beside them", ("tests/attacks",)),
    Room("clients", "stock clients of many releases, on brokers of three", ("tests/clients",)),
    Room(
        "native",
        "the brokers' own limiter, steered",
        _integration("native", "native_set_up"),
    ),
    Room(
        "native-restarts",
        "the same when brokers and sidecars restart, and with many groups",
        _integration("native_many_groups", "native_restarts"),
    ),
    Room(
        "native-dispatch",
        "dispatch limits held by topics' own rates",
        _integration("native_dispatch"),
    ),
    Room(
        "native-topics",
        "limits of single topics and subscriptions held by their own policies",
        _integration("native_topics"),
    ),
    Room(
        "native-replication",
        "limits of replication to other clusters held by their own policies",
        _integration("native_replication"),
    ),
    Room(
        "chaos", "mishaps under load, and planted faults that must be found", _integration("chaos")
    ),
    Room(
        "contract",
        "services that freeze, and bounds of what they keep",
        ("tests/contract", *_integration("pulsar_admin", "relay")),
    ),
    Room("browser", "the dashboard, whole and in time", ("tests/browser",)),
    Room(
        "simulated",
        "simulated clusters, stories and senders in full",
        (
            "tests/simulation",
            "tests/core",
            "tests/closed_loop",
            "tests/benchmarks",
            "tests/gate",
            "tests/adapters",
            "tests/cli",
        ),
        side_by_side=True,
    ),
    Room(
        "spark",
        "Spark jobs on stores and clusters, and Pulsar's decoder on random frames",
        ("tests/spark_jobs", "tests/decoder"),
    ),
)


def room_of(test: str) -> Room | None:
    """Return the first room that has a test."""
    return next((room for room in ROOMS if room.has(test)), None)

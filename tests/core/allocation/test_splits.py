"""Many splits at once equal the splits one by one, through the whole decider."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.allocation.fill import max_min_of_all
from coordinator.core.allocation.laws import Claim, max_min
from coordinator.core.allocation.splits import MANY
from coordinator.core.decisions.decider import Decider
from coordinator.core.decisions.decision import Decision
from coordinator.core.degradation import Degradations
from coordinator.core.escrow.escrow import Escrow
from coordinator.core.escrow.lease import Lease
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    Dimension,
    GroupUsage,
    LimitKey,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.raise_protocol import Raises
from coordinator.core.usage.map import UsageMap

SECOND_NS = 1_000_000_000
BROKERS = [f"b{number}" for number in range(7)]
SETTINGS = CoreSettings(broker=BROKERS[0])
GROUPS = 3 * MANY

claims_of_some = st.dictionaries(
    st.sampled_from(BROKERS),
    st.builds(
        Claim, wants=st.none() | st.integers(0, 1 << 64), weight=st.integers(1, (1 << 32) - 1)
    ),
    min_size=1,
)


@given(st.lists(st.tuples(st.integers(0, (1 << 63) - 1), claims_of_some), max_size=5))
def test_all_at_once_is_one_by_one(splits: list[tuple[int, dict[str, Claim]]]) -> None:
    """This holds for any sizes, and for any numbers that a definition and a report can hold."""
    assert max_min_of_all(splits) == [max_min(limit, claims) for limit, claims in splits]


def some_rate(rng: random.Random) -> int | None:
    """Over many magnitudes; one in four is None, one in ten 0."""
    return rng.choice([None, 0, *(round(10 ** rng.uniform(0, 7)) for _ in range(6))])


def some_group(rng: random.Random, name: str) -> ResourceGroup:
    """Any law and weights; mostly what is computed at once."""
    return ResourceGroup(
        name,
        Rates(*(some_rate(rng) for _ in Dimension)),
        law=rng.choice(["max-min", "max-min", "max-min", "proportional", "static"]),
        weights=rng.choice(["equal", "topics"]),
        overshoot_policy=rng.choice(["balanced", "eager"]),
        configuration_version=1,
    )


def some_usage(rng: random.Random) -> Usage:
    """Draw any usage that a broker may report of a group."""
    return Usage(
        messages=rng.randrange(10_000),
        bytes=rng.randrange(10_000_000),
        messages_demand=some_rate(rng),
        bytes_demand=some_rate(rng),
        messages_limit=some_rate(rng),
        bytes_limit=some_rate(rng),
        participants=rng.randrange(4),
        topics=rng.randrange(40),
        message_size=rng.choice([0, 1, 100, 10_000]),
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lifecycle", [Lifecycle.ACTIVE, Lifecycle.DEGRADED])
def test_decisions_are_the_same_all_at_once_and_one_by_one(seed: int, lifecycle: Lifecycle) -> None:
    """Every limit, target, level and reason of 150 groups; the seed is the test's."""
    rng = random.Random(seed)
    groups = {f"g{number:03}": some_group(rng, f"g{number:03}") for number in range(GROUPS)}
    members = {broker: Member(broker, number + 1) for number, broker in enumerate(BROKERS)}
    usage = UsageMap(SETTINGS.broker)
    usage.set_members(members)
    for broker in BROKERS:
        entries = tuple(
            GroupUsage(name, 1, {of: some_usage(rng) for of in MonitoringClass}) for name in groups
        )
        incarnation = members[broker].incarnation
        usage.take(UsageReport(broker, incarnation, 1, SECOND_NS, entries, complete=True), 0)

    def decided(
        batches: list[list[str]],
    ) -> tuple[dict[str, Rates], dict[LimitKey, Decision]]:
        decider = Decider(SETTINGS, Escrow(SETTINGS), Lease(SETTINGS), Raises(SETTINGS), {})
        for names in batches:
            decider.mark(names)
            decider.decide(groups, members, usage, Degradations(SETTINGS), lifecycle, 1, SECOND_NS)
        return decider.in_force, dict(decider.decisions)

    assert decided([list(groups)]) == decided([[name] for name in groups]), f"seed {seed}"

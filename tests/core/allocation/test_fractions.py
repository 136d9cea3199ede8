"""Small limits are split exactly: whole parts and fractions add up to what is shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.allocation.laws import Claim, exact_parts, max_min
from coordinator.core.allocation.splitting import WHOLE_FROM, Split, fault_of_fractions, split_rows
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    ExactRates,
    MonitoringClass,
    Rate,
    ResourceGroup,
    Usage,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.rows import UsageRow

MESSAGES = Dimension.PUBLISH_MESSAGES
SETTINGS = CoreSettings(broker="b0")
limits = st.integers(0, 20_000).map(lambda thousandths: Fraction(thousandths, 1_000))
claims_of_some = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(Claim, wants=st.none() | st.integers(0, 20), weight=st.integers(1, 5)),
    min_size=1,
)


def group_of(limits: Mapping[Dimension, Rate], **settings: str) -> ResourceGroup:
    """Return a group with these limits."""
    rates = ExactRates.from_mapping(limits)
    return ResourceGroup("g", rates.whole, fractions=rates.fractions, **settings)  # type: ignore[arg-type]


def split_of(limit: Rate, *demands: int | None, **settings: str) -> Split:
    """Split a limit among brokers with these demands; None is unbounded."""
    group = group_of({MESSAGES: limit}, **settings)
    rows = {
        f"b{number}": UsageRow(Usage(messages_demand=demand, participants=1), NANOS_PER_SECOND)
        for number, demand in enumerate(demands)
    }
    return split_rows(group, MonitoringClass.PUBLISH, rows, len(rows), SETTINGS)[MESSAGES]


@given(st.integers(0, 200), claims_of_some)
def test_exact_parts_are_those_of_the_law_before_they_are_rounded(
    limit: int, claims: dict[str, Claim]
) -> None:
    """Each is less than one away from its whole target, and they add up to the limit."""
    whole, exact = max_min(limit, claims), exact_parts(limit, claims)

    assert all(-1 < part - whole.targets[name] < 1 for name, part in exact.items())
    assert sum(exact.values()) == limit


@given(limits, claims_of_some)
def test_exact_parts_of_a_limit_with_a_fraction_are_max_min_fair(
    limit: Fraction, claims: dict[str, Claim]
) -> None:
    """They add up to it, and who gets less than it wants has the highest part per weight."""
    exact = exact_parts(limit, claims)

    assert sum(exact.values()) == limit
    levels = {name: Fraction(part) / claims[name].weight for name, part in exact.items()}
    short = [
        name for name, claim in claims.items() if claim.wants is None or exact[name] < claim.wants
    ]
    assert all(levels[name] == max(levels.values()) for name in short)


@pytest.mark.parametrize("limit", range(1, 3 * WHOLE_FROM))
def test_three_that_want_more_have_a_third_each(limit: int) -> None:
    """The whole parts alone are announced, so those never add up to more than the limit."""
    found = split_of(limit, None, None, None)

    assert {found.exact_target_of(name) for name in found.claims} == {Fraction(limit, 3)}
    assert sum(found.targets.values()) + sum(found.fractions.values()) == limit
    assert all(0 < each < 1 for each in found.fractions.values())


@pytest.mark.parametrize("thousandths", [1, 500, 999, 1_500, 2_001, 30_001, 1_000_500])
def test_a_limit_with_a_fraction_is_shared_to_the_last_part(thousandths: int) -> None:
    """However large it is, and whether or not the demand is met."""
    limit = Fraction(thousandths, 1_000)
    for demands in ((None, None, None), (1, None, None), (0, 0, 0)):
        found = split_of(limit, *demands)

        assert found.exact_limit == limit
        assert sum(found.exact_target_of(name) for name in found.claims) == limit
        assert sum(found.targets.values()) <= int(limit)
        assert all(0 < each < 1 for each in found.fractions.values())


def test_a_member_enforces_its_fraction_beside_its_target_and_no_other_limit() -> None:
    """One that announces less than its target has not moved there yet."""
    found = replace(split_of(10, None, None, None), in_force={"b0": 3, "b1": 2})

    assert found.exactly_in_force_at("b0") == Fraction(10, 3)
    assert found.exactly_in_force_at("b1") == 2


def test_without_participants_a_fraction_belongs_to_none() -> None:
    """No broker has it, and no law is asked."""
    assert split_of(Fraction(1, 2)).fractions == {}


@pytest.mark.parametrize(
    ("limits", "settings", "fault"),
    [
        ({Dimension.PUBLISH_BYTES: Fraction(1, 2)}, {}, "publishRateInBytes: must be whole"),
        ({MESSAGES: Fraction(1, 2)}, {"law": "static"}, "publishRateInMsgs: a fraction needs law"),
        (
            {MESSAGES: Fraction(1, 2)},
            {"parent": "p"},
            "publishRateInMsgs: a fraction needs a group",
        ),
        (
            {MESSAGES: Fraction(1, 2), Dimension.PUBLISH_BYTES: 100},
            {},
            "publishRateInMsgs: a fraction needs publishRateInBytes -1",
        ),
    ],
)
def test_a_fraction_that_cannot_be_shared_exactly_is_a_fault(
    limits: dict[Dimension, Rate], settings: dict[str, str], fault: str
) -> None:
    """The field and the fix are named; such a group is split as if it had none."""
    group = group_of(limits, **settings)

    assert fault_of_fractions(group).startswith(fault)


def test_limits_of_both_classes_may_have_fractions() -> None:
    """Publish and dispatch are shared apart."""
    both = group_of({MESSAGES: Fraction(1, 2), Dimension.DISPATCH_MESSAGES: Fraction(1, 4)})
    bytes_too = group_of({MESSAGES: Fraction(1, 2), Dimension.DISPATCH_BYTES: 100})

    assert fault_of_fractions(both) == fault_of_fractions(bytes_too) == ""


def test_who_wants_less_has_that_and_the_others_share_the_rest() -> None:
    """Of four a second one wants one; the others have one and a half each."""
    found = split_of(4, 1, None, None)

    assert [found.exact_target_of(f"b{number}") for number in range(3)] == [
        1,
        Fraction(3, 2),
        Fraction(3, 2),
    ]


@pytest.mark.parametrize(
    ("limit", "demands", "settings"),
    [
        (3 * WHOLE_FROM, (None, None, None), {}),
        (31, (None, None, None), {}),
        (5, (1, 1, 1), {}),
        (0, (None, None), {}),
        (2, (None, None, None), {"law": "proportional"}),
    ],
)
def test_others_are_split_into_whole_numbers(
    limit: int, demands: tuple[int | None, ...], settings: dict[str, str]
) -> None:
    """Large limits, demands that are met, nothing at all, and other laws."""
    assert split_of(limit, *demands, **settings).fractions == {}

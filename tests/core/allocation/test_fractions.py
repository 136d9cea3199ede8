"""Small limits are split exactly: whole parts and fractions add up to what is shared."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.allocation.laws import Claim, exact_parts, max_min
from coordinator.core.allocation.splitting import WHOLE_FROM, Split, split_rows
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.rows import UsageRow

MESSAGES = Dimension.PUBLISH_MESSAGES
SETTINGS = CoreSettings(broker="b0")
claims_of_some = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(Claim, wants=st.none() | st.integers(0, 20), weight=st.integers(1, 5)),
    min_size=1,
)


def split_of(limit: int, *demands: int | None, **settings: str) -> Split:
    """Split a limit among brokers with these demands; None is unbounded."""
    group = ResourceGroup("g", Rates(publish_messages=limit), **settings)  # type: ignore[arg-type]
    rows = {
        f"b{number}": UsageRow(Usage(messages_demand=demand, participants=1), NANOS_PER_SECOND)
        for number, demand in enumerate(demands)
    }
    return split_rows(group, MonitoringClass.PUBLISH, rows, len(rows), SETTINGS)[MESSAGES]


@given(st.integers(0, 200), claims_of_some)
def test_exact_parts_are_those_of_the_law_before_they_are_rounded(
    limit: int, claims: dict[str, Claim]
) -> None:
    """Each is less than one away from its whole target, and they add up to what is left for them."""
    whole, exact = max_min(limit, claims), exact_parts(limit, claims)

    assert bool(exact) == (whole.water_level is not None)
    assert all(abs(part - whole.targets[name]) < 1 for name, part in exact.items())
    assert sum(exact.values()) == sum(whole.targets[name] for name in exact)
    levels = {part / claims[name].weight for name, part in exact.items()}
    assert len(levels) <= 1


@pytest.mark.parametrize("limit", range(1, 3 * WHOLE_FROM))
def test_three_that_want_more_have_a_third_each(limit: int) -> None:
    """The whole parts alone are announced, so those never add up to more than the limit."""
    found = split_of(limit, None, None, None)

    assert {found.exact_target_of(name) for name in found.claims} == {Fraction(limit, 3)}
    assert sum(found.targets.values()) + sum(found.fractions.values()) == limit
    assert all(0 < each < 1 for each in found.fractions.values())


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

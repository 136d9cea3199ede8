"""Allocation laws: exact, complete, fair, and independent of order."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.laws import LAWS, Claim, apportion, max_min

claims_of_some = st.dictionaries(
    st.sampled_from([f"broker-{i}" for i in range(8)]),
    st.builds(Claim, wants=st.none() | st.integers(0, 10_000), weight=st.integers(1, 5)),
    min_size=1,
)


def slow_max_min(limit: int, claims: dict[str, Claim]) -> dict[str, Fraction]:
    """The definition, unhurried: raise all levels together until each has enough or nothing is left."""
    shares = dict.fromkeys(claims, Fraction(0))
    left, rising = Fraction(limit), dict(claims)
    while rising and left > 0:
        weight = sum(claim.weight for claim in rising.values())
        steps = [
            (claim.wants - shares[name]) / claim.weight
            for name, claim in rising.items()
            if claim.wants is not None
        ]
        step = min([*steps, left / weight])
        for name, claim in rising.items():
            shares[name] += step * claim.weight
        left -= step * weight
        rising = {
            name: claim
            for name, claim in rising.items()
            if claim.wants is None or shares[name] < claim.wants
        }
    total = sum(claim.weight for claim in claims.values())
    return {name: shares[name] + left * claims[name].weight / total for name in claims}


@given(limit=st.integers(0, 1_000_000), claims=claims_of_some)
def test_max_min_is_the_definition_up_to_rounding(limit: int, claims: dict[str, Claim]) -> None:
    """Every target is less than one unit away from the exact max-min share plus headroom."""
    exact = slow_max_min(limit, claims)
    targets = max_min(limit, claims).targets

    assert all(abs(targets[name] - exact[name]) < 1 for name in claims)


@pytest.mark.parametrize("law", LAWS)
@given(limit=st.integers(0, 1_000_000), claims=claims_of_some)
def test_every_law_hands_out_exactly_the_limit(
    law: str, limit: int, claims: dict[str, Claim]
) -> None:
    """Targets are not negative and add up to the limit."""
    targets = LAWS[law](limit, claims).targets

    assert targets.keys() == claims.keys()
    assert min(targets.values()) >= 0
    assert sum(targets.values()) == limit


@pytest.mark.parametrize("law", LAWS)
@given(limit=st.integers(0, 1_000_000), claims=claims_of_some, seed=st.randoms())
def test_every_law_ignores_the_order_of_claims(
    law: str, limit: int, claims: dict[str, Claim], seed: object
) -> None:
    """The same claims in another order give the same targets, so all sidecars agree."""
    shuffled = list(claims.items())
    seed.shuffle(shuffled)  # type: ignore[attr-defined]

    assert LAWS[law](limit, dict(shuffled)).targets == LAWS[law](limit, claims).targets


def test_whoever_wants_little_gets_all_of_it_and_the_others_share_equally() -> None:
    """50, 150, 400, 900 and 2,000 of 1,000 are cut at 266 or 267 (peers-and-laws.md, S2)."""
    wants = {"a": 50, "b": 150, "c": 400, "d": 900, "e": 2000}
    allocation = max_min(1000, {name: Claim(want) for name, want in wants.items()})

    assert allocation.targets == {"a": 50, "b": 150, "c": 267, "d": 267, "e": 266}
    assert allocation.water_level == 266


def test_an_unbounded_demand_is_cut_at_the_level() -> None:
    """Two saturated brokers share equally, however unequal they were before (Pulsar keeps 80/20)."""
    assert max_min(100, {"a": Claim(None), "b": Claim(None)}).targets == {"a": 50, "b": 50}


def test_what_nobody_wants_is_headroom_shared_by_weight() -> None:
    """With room for all, everybody gets what it wants and its part of the rest; there is no level."""
    allocation = max_min(100, {"a": Claim(10), "b": Claim(30, weight=2)})

    assert allocation.targets == {"a": 30, "b": 70}
    assert allocation.water_level is None


def test_a_limit_of_zero_gives_nobody_anything() -> None:
    """0 means that nothing passes."""
    assert max_min(0, {"a": Claim(None), "b": Claim(5)}).targets == {"a": 0, "b": 0}


def test_rounding_goes_to_the_largest_remainder_then_by_name() -> None:
    """100 in three equal parts is 34, 33, 33, and the odd one goes to the first name everywhere."""
    assert apportion(100, {"c": 1, "b": 1, "a": 1}) == {"a": 34, "b": 33, "c": 33}


def test_nothing_is_apportioned_by_no_weight() -> None:
    """Without any weight nobody gets anything."""
    assert apportion(100, {"a": 0, "b": 0}) == {"a": 0, "b": 0}

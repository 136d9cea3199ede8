"""Each allocation law has the properties that its row in ``PROPERTIES`` promises.

``PROPERTIES`` says which law has which property; every row is tried on random claims.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.allocation.laws import (
    ALL_LAWS,
    COMPARISON_LAWS,
    LAWS,
    LAWS_OF_USE,
    Claim,
    apportion,
    max_min,
)

BROKERS = [f"broker-{i}" for i in range(8)]


class Total(Enum):
    """The least and the most that the targets of a limit C among N brokers add up to."""

    EXACT = "the limit"
    BOUNDED = "at most the limit"
    TWICE = "at most two limits"
    EACH_ALL = "at most N limits"


@dataclass(frozen=True)
class Properties:
    """The properties of one law.

    Args:
        total: what the targets add up to.
        rises_with_demand: who wants more, all else equal, gets no less.
        rises_with_use: who used more, all else equal, gets no less.
        weighted: of two brokers that are alike but for their weight, the heavier one gets no less.
        slack: by how many units rounding may break that a target rises.
        floor: the percentage of an equal part that all get who want it, whatever the others claim.
    """

    total: Total
    rises_with_demand: bool = True
    rises_with_use: bool = True
    weighted: bool = True
    slack: int = 1
    floor: int = 0


PROPERTIES = {
    "max-min": Properties(Total.EXACT, floor=100),
    "static": Properties(Total.EXACT, floor=100),
    "proportional": Properties(Total.EXACT),
    # Who used more, or counts for more, may have to find a poorer partner.
    "steal": Properties(Total.TWICE, rises_with_use=False, weighted=False, slack=2),
    "equal-residual": Properties(Total.EACH_ALL),
    "tdmq": Properties(Total.EACH_ALL),
    "pulsar": Properties(Total.EACH_ALL),
    # Without drops no broker is limited; one message more limits them all.
    "grd": Properties(Total.EACH_ALL, rises_with_demand=False),
    "rateguard": Properties(Total.EXACT, floor=5),
    "doorman-proportional": Properties(Total.BOUNDED, floor=100),
    "doorman-fair": Properties(Total.BOUNDED, floor=100),
    # The unsaturated get no more than they use, and who has more flows is saturated later.
    "fps": Properties(Total.EXACT, rises_with_use=False, weighted=False, floor=100),
}

claims_of_some = st.dictionaries(
    st.sampled_from(BROKERS),
    st.builds(
        Claim,
        wants=st.none() | st.integers(0, 10_000),
        weight=st.integers(1, 5),
        used=st.integers(0, 10_000),
    ),
    min_size=1,
)
claims_of_equals = st.dictionaries(
    st.sampled_from(BROKERS),
    st.builds(Claim, wants=st.none() | st.integers(0, 10**12), used=st.integers(0, 10**12)),
    min_size=1,
)
limits = st.integers(0, 100_000)
fewer = settings(max_examples=25)
"""For what is tried on every law."""


def with_property(has: Callable[[Properties], bool]) -> pytest.MarkDecorator:
    """Return every law that has a property."""
    return pytest.mark.parametrize("law", [name for name, row in PROPERTIES.items() if has(row)])


def test_every_law_has_its_properties_written_down() -> None:
    """A new law needs a row in the table."""
    assert PROPERTIES.keys() == ALL_LAWS.keys()


@pytest.mark.parametrize("law", ALL_LAWS)
def test_only_laws_of_use_go_by_what_a_broker_used(law: str) -> None:
    """90 and 10 used, or 10 and 90, of the same demand: another split, or the same."""

    def targets(limit: int, wants: int | None, *used: int) -> object:
        claims = {name: Claim(wants, used=each) for name, each in zip("ab", used, strict=True)}
        return ALL_LAWS[law](limit, claims).targets

    # Of brokers that want more than they get, and of brokers that want less.
    cases = (100, None), (300, 10)
    of_use = any(targets(*case, 90, 10) != targets(*case, 10, 90) for case in cases)

    assert of_use is (law in LAWS_OF_USE)


def test_no_group_can_choose_a_law_of_comparison() -> None:
    """The tables have no name in common, and a group's setting is checked against the first."""
    assert not LAWS.keys() & COMPARISON_LAWS.keys()


@pytest.mark.parametrize("law", ALL_LAWS)
@fewer
@given(limit=limits, claims=claims_of_some)
def test_targets_are_as_many_as_claims_and_never_below_zero(
    law: str, limit: int, claims: dict[str, Claim]
) -> None:
    """The targets add up to the sum of the law's row."""
    targets = ALL_LAWS[law](limit, claims).targets
    total = sum(targets.values())

    assert targets.keys() == claims.keys()
    assert min(targets.values()) >= 0
    match PROPERTIES[law].total:
        case Total.EXACT:
            assert total == limit
        case Total.BOUNDED:
            assert total <= limit
        case Total.TWICE:
            assert total <= 2 * limit
        case Total.EACH_ALL:
            assert max(targets.values()) <= limit + 1


@pytest.mark.parametrize("law", ALL_LAWS)
@fewer
@given(claims=claims_of_some)
def test_a_limit_of_zero_gives_every_broker_zero(law: str, claims: dict[str, Claim]) -> None:
    """0 means that nothing passes."""
    assert not any(ALL_LAWS[law](0, claims).targets.values())


@pytest.mark.parametrize("law", ALL_LAWS)
@fewer
@given(limit=limits, claims=claims_of_some)
def test_there_is_a_level_when_a_broker_gets_less_than_it_wants(
    law: str, limit: int, claims: dict[str, Claim]
) -> None:
    """The level is not below any limited broker's rate per unit of weight; else there is no level."""
    split = ALL_LAWS[law](limit, claims)
    cut = {
        name: claim
        for name, claim in claims.items()
        if claim.wants is None or claim.wants > split.targets[name]
    }

    assert (split.water_level is None) == (not cut)
    for name, claim in cut.items():
        assert split.water_level is not None
        assert split.targets[name] <= (split.water_level + 1) * claim.weight


@pytest.mark.parametrize("law", ALL_LAWS)
@fewer
@given(limit=limits, claims=claims_of_some, shuffler=st.randoms(use_true_random=False))
def test_the_order_of_the_claims_does_not_matter(
    law: str, limit: int, claims: dict[str, Claim], shuffler: random.Random
) -> None:
    """The same claims in another order give the same targets, so all sidecars agree."""
    shuffled = list(claims.items())
    shuffler.shuffle(shuffled)

    assert ALL_LAWS[law](limit, dict(shuffled)) == ALL_LAWS[law](limit, claims)


@pytest.mark.parametrize("law", [name for name in ALL_LAWS if name != "steal"])
@fewer
@given(limit=limits, claims=claims_of_some, shift=st.integers(1, 7))
def test_names_do_not_matter_but_for_the_last_unit(
    law: str, limit: int, claims: dict[str, Claim], shift: int
) -> None:
    """Brokers that swap their names swap their targets; rounding alone goes by name.

    Not so in ``steal``: of several that used the same, the name decides who steals from whom.
    """
    renamed = {name: BROKERS[(BROKERS.index(name) + shift) % len(BROKERS)] for name in claims}
    targets = ALL_LAWS[law](limit, claims).targets
    others = ALL_LAWS[law](limit, {renamed[name]: claim for name, claim in claims.items()}).targets

    assert all(abs(targets[name] - others[renamed[name]]) <= 1 for name in claims)


@with_property(lambda row: row.floor > 0)
@fewer
@given(limit=limits, claims=claims_of_equals)
def test_no_claim_of_others_pushes_a_broker_below_the_floor(
    law: str, limit: int, claims: dict[str, Claim]
) -> None:
    """A liar takes no more than the floors leave, however much it claims."""
    targets = ALL_LAWS[law](limit, claims).targets
    floor = limit * PROPERTIES[law].floor // (100 * len(claims))

    for name, claim in claims.items():
        assert targets[name] >= (floor if claim.wants is None else min(floor, claim.wants))


@with_property(lambda row: row.floor == 0)
def test_a_law_without_a_floor_lets_one_take_nearly_everything(law: str) -> None:
    """A claim of use or demand takes it from others that are saturated but used little lately."""
    victims = {f"victim-{i}": Claim(1_000, used=10) for i in range(9)}
    found = [
        ALL_LAWS[law](1_000, victims | {"liar": liar}).targets
        for liar in (Claim(None, used=10_000), Claim(10**9, used=10_000), Claim(1, used=10_000))
    ]

    least = min(targets[name] for targets in found for name in victims)
    assert least <= 1_000 // 10 // 5


@with_property(lambda row: row.rises_with_demand)
@fewer
@given(limit=limits, claims=claims_of_some, more=st.none() | st.integers(1, 10_000))
def test_who_wants_more_gets_no_less(
    law: str, limit: int, claims: dict[str, Claim], more: int | None
) -> None:
    """With all else equal, no broker gains by understating its demand.

    A hidden demand is more than any up to the limit; beyond that some laws have to guess.
    """
    name, claim = min(claims.items())
    if claim.wants is None or (more is None and claim.wants <= limit):
        raised = None
    else:
        raised = claim.wants + (more or 0)
    before = ALL_LAWS[law](limit, claims).targets[name]
    changed = claims | {name: Claim(raised, claim.weight, claim.used)}

    assert ALL_LAWS[law](limit, changed).targets[name] >= before - PROPERTIES[law].slack


@with_property(lambda row: row.rises_with_use)
@fewer
@given(limit=limits, claims=claims_of_some, more=st.integers(1, 10_000))
def test_who_used_more_gets_no_less(
    law: str, limit: int, claims: dict[str, Claim], more: int
) -> None:
    """This holds with all else equal."""
    name, claim = min(claims.items())
    before = ALL_LAWS[law](limit, claims).targets[name]
    changed = claims | {name: Claim(claim.wants, claim.weight, claim.used + more)}

    assert ALL_LAWS[law](limit, changed).targets[name] >= before - PROPERTIES[law].slack


@pytest.mark.parametrize("law", [name for name in ALL_LAWS if name != "fps"])
@fewer
@given(limit=limits, claims=claims_of_some, more=st.integers(1, 10_000))
def test_a_higher_limit_lowers_no_target(
    law: str, limit: int, claims: dict[str, Claim], more: int
) -> None:
    """An operator who gives more takes from none.

    Not so in ``fps``: with more room a limiter counts as unsaturated, and gets what it uses.
    """
    before = ALL_LAWS[law](limit, claims).targets
    after = ALL_LAWS[law](limit + more, claims).targets

    assert all(after[name] >= before[name] - PROPERTIES[law].slack for name in claims)


@with_property(lambda row: row.weighted)
@fewer
@given(limit=limits, claims=claims_of_some, heavier=st.integers(1, 5))
def test_of_two_alike_the_heavier_gets_no_less(
    law: str, limit: int, claims: dict[str, Claim], heavier: int
) -> None:
    """Where a law knows weights, they count in favour."""
    name, claim = min(claims.items())
    twin = Claim(claim.wants, claim.weight + heavier, claim.used)
    targets = ALL_LAWS[law](limit, claims | {"twin": twin}).targets

    assert targets["twin"] >= targets[name] - 1


@pytest.mark.parametrize("law", [name for name in ALL_LAWS if name not in {"pulsar", "steal"}])
@fewer
@given(
    limit=limits,
    claims=st.dictionaries(
        st.sampled_from(BROKERS),
        st.builds(Claim, wants=st.integers(0, 10_000), used=st.integers(1, 10_000)),
        min_size=1,
    ),
    factor=st.integers(2, 1000),
)
def test_another_unit_of_measurement_changes_nothing_but_rounding(
    law: str, limit: int, claims: dict[str, Claim], factor: int
) -> None:
    """All rates times k give the targets times k, to within one old unit.

    ``pulsar`` rounds to 32 bits and ``steal`` rounds twice, so theirs is a looser law.
    """
    targets = ALL_LAWS[law](limit, claims).targets
    scaled = ALL_LAWS[law](
        limit * factor,
        {
            name: Claim(claim.wants and claim.wants * factor, claim.weight, claim.used * factor)
            for name, claim in claims.items()
        },
    ).targets

    assert all(abs(scaled[name] - factor * targets[name]) <= factor + 1 for name in claims)


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


@given(limit=st.integers(0, 1 << 62), claims=claims_of_some)
def test_max_min_is_the_definition_up_to_rounding(limit: int, claims: dict[str, Claim]) -> None:
    """Every target is less than one unit away from the exact max-min share plus headroom."""
    exact = slow_max_min(limit, claims)
    targets = max_min(limit, claims).targets

    assert all(abs(targets[name] - exact[name]) < 1 for name in claims)


def test_small_demands_are_met_and_large_ones_share_the_rest_equally() -> None:
    """50, 150, 400, 900 and 2,000 of 1,000 are cut at 266 or 267."""
    wants = {"a": 50, "b": 150, "c": 400, "d": 900, "e": 2000}
    allocation = max_min(1000, {name: Claim(want) for name, want in wants.items()})

    assert allocation.targets == {"a": 50, "b": 150, "c": 267, "d": 267, "e": 266}
    assert allocation.water_level == 266


def test_rounding_goes_to_the_largest_remainder_then_by_name() -> None:
    """100 in three equal parts is 34, 33, 33, and the odd one goes to the first name everywhere."""
    assert apportion(100, {"c": 1, "b": 1, "a": 1}) == {"a": 34, "b": 33, "c": 33}


def test_nothing_is_apportioned_by_no_weight() -> None:
    """Without any weight no broker gets anything."""
    assert apportion(100, {"a": 0, "b": 0}) == {"a": 0, "b": 0}

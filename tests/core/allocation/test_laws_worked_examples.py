"""The examples that the laws' own authors worked out, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.allocation.laws import COMPARISON_LAWS, LAWS, Claim, Law
from coordinator.core.allocation.laws.products import pulsar_quota


def shares(law: Law, limit: int, **claims: Claim) -> dict[str, int]:
    """The targets of some brokers."""
    return dict(law(limit, claims).targets)


def after_use(law: str, limit: int, *uses: int) -> list[int]:
    """Return the targets of throttled brokers with these rates of use, in their order."""
    claims = {f"broker-{i}": Claim(None, used=used) for i, used in enumerate(uses, 1)}
    targets = shares(LAWS[law], limit, **claims)
    return [targets[name] for name in claims]


def by_demand(law: str, limit: int, *wants: int) -> list[int]:
    """Return the targets of brokers with these demands, in their order."""
    claims = {f"client-{i}": Claim(wanted) for i, wanted in enumerate(wants)}
    targets = shares(COMPARISON_LAWS[law], limit, **claims)
    return [targets[name] for name in claims]


@pytest.mark.shows("pip-82/equal-residual")
def test_pip_82_adds_the_whole_residual_to_each() -> None:
    """10, 50 and 30 of 100: "each adding the remaining 10 units"."""
    assert after_use("equal-residual", 100, 10, 50, 30) == [20, 60, 40]


@pytest.mark.shows("pip-82/proportional")
def test_pip_82_splits_the_residual_by_use() -> None:
    """10, 50 and 30 of 100: 11.11, 55.56, 33.33."""
    assert after_use("proportional", 10_000, 1000, 5000, 3000) == [1111, 5556, 3333]


@pytest.mark.shows("pip-82/over-quota")
def test_pip_82_takes_an_excess_back_in_proportion() -> None:
    """Over the quota "each broker would reduce its usage by the corresponding fractional amount"."""
    assert after_use("proportional", 100, 80, 120) == [40, 60]
    assert after_use("equal-residual", 100, 80, 120) == [40, 60]


@pytest.mark.shows("pip-82/steal-half-way")
def test_pip_82_lets_the_smaller_steal_half_of_the_difference() -> None:
    """80 and 20 of 100: 20 + (80 - 20) / 2 = 50, while the dominant broker keeps what it uses."""
    assert after_use("steal", 100, 80, 20) == [80, 50]


@pytest.mark.shows("pip-82/steal-gives-way")
def test_pip_82_makes_the_dominant_give_way_to_what_is_really_taken() -> None:
    """When the smaller one's use has grown to 30, the dominant broker's limit is 70."""
    assert after_use("steal", 100, 80, 30) == [70, 50]


@pytest.mark.shows("pip-82/steal-n")
def test_steal_pairs_the_lowest_with_the_highest() -> None:
    """The second lowest steals from the second highest; the middle one keeps its part."""
    assert after_use("steal", 300, 120, 80, 60, 30, 10) == [120, 80, 60, 55, 65]


def test_steal_is_fair_in_the_end() -> None:
    """Saturated brokers reach equal shares from 97/1/1/1, in rounds that each see the last one's use."""
    uses = [97, 1, 1, 1]
    for _ in range(10):
        uses = after_use("steal", 100, *uses)

    assert uses == [25, 25, 25, 25]


def test_proportional_keeps_every_split_of_saturated_brokers() -> None:
    """Why it is not the default: 80 and 20 remain 80 and 20."""
    assert after_use("proportional", 100, 80, 20) == [80, 20]
    assert after_use("pulsar", 100, 80, 20) == [80, 20]


def test_no_law_of_use_shuts_a_newcomer_out_for_ever() -> None:
    """A newcomer beside a broker that uses everything gets at least one per second."""
    for law in ("proportional", "equal-residual", "steal", "pulsar", "tdmq"):
        assert after_use(law, 100, 100, 0)[1] >= 1


def test_without_traffic_the_laws_of_use_split_by_weight() -> None:
    """Where no use is known, the weights decide."""
    claims = {"a": Claim(None, weight=1), "b": Claim(None, weight=3)}

    assert shares(LAWS["proportional"], 100, **claims) == {"a": 25, "b": 75}
    assert shares(LAWS["steal"], 100, **claims) == {"a": 25, "b": 75}


def test_tdmq_gives_everybody_what_the_cluster_has_left() -> None:
    """Its documentation: five at 150 of 1,000 may each go to 150 + 1000 - 750 = 400."""
    assert after_use("tdmq", 1000, 150, 150, 150, 150, 150) == [400] * 5


def test_static_ignores_everything_but_the_weight() -> None:
    """C/N."""
    claims = {"a": Claim(0), "b": Claim(None, used=900), "c": Claim(3, weight=2)}

    assert shares(LAWS["static"], 100, **claims) == {"a": 25, "b": 25, "c": 50}


@pytest.mark.parametrize(
    ("configured", "used", "total", "quota"),
    [
        # Asserted by Pulsar's ResourceQuotaCalculatorImplTest, or implied by its ratios.
        (-1, 0, 0, -1),
        (100, 20, 40, 50),
        (100, 20, 100, 20),
        (100, 20, 150, 13),
        (100, 20, 60, 33),
        (100, 40, 60, 66),
        (10, 0, 0, 10),
        # The floor of one, also at a quota of 0; and what it makes of an impossible total.
        (100, 0, 40, 1),
        (0, 20, 40, 1),
        (0, 0, 0, 0),
        (100, 20, 2000, 1),
        (100, 60, 40, 150),
        # PIP-82's own example, truncated.
        (100, 10, 90, 11),
        (100, 50, 90, 55),
        (100, 30, 90, 33),
        # What 32-bit floats make of a third of 10 MB/s, and of a half of 1,000 B/s.
        (10_000_000, 200_000_000, 600_000_000, 3_333_328),
        (1000, 30_000_000_000, 60_000_000_000, 2048),
    ],
)
def test_pulsars_formula_is_reproduced_with_its_rounding(
    configured: int, used: int, total: int, quota: int
) -> None:
    """ResourceQuotaCalculatorImpl.computeLocalQuota of Pulsar 4."""
    assert pulsar_quota(configured, used, total) == quota


@pytest.mark.parametrize(("used", "total"), [(-1, 0), (0, -1)])
def test_pulsars_formula_refuses_a_negative_use(used: int, total: int) -> None:
    """Upstream throws PulsarAdminException."""
    with pytest.raises(ValueError, match="usage must be >= 0"):
        pulsar_quota(0, used, total)


@given(
    limit=st.integers(1, 1 << 40),
    uses=st.lists(st.integers(0, 1 << 40), min_size=1, max_size=8),
)
def test_pulsars_law_is_proportional_but_for_its_floats(limit: int, uses: list[int]) -> None:
    """Every quota is max(1, C * u / U), to within a few 32-bit roundings of the largest term."""
    total = sum(uses)
    for target, used in zip(after_use("pulsar", limit, *uses), uses, strict=True):
        exact = max(1.0, limit * used / total) if total else limit
        noise = 4 * 2.0**-24 * max(limit, used, used * abs(limit - total) / max(1, total))
        assert abs(target - exact) <= noise + 1


def test_grd_drops_the_same_part_of_every_demand() -> None:
    """1,200 and 300 of 1,000 both drop a third; while nothing is dropped there is no limit."""
    assert by_demand("grd", 1000, 1200, 300) == [800, 200]
    assert by_demand("grd", 1000, 600, 300) == [1000, 1000]


def test_rateguard_gives_a_twentieth_equally_and_the_rest_by_demand() -> None:
    """R * 0.05 / N + R * 0.95 * d / D."""
    assert by_demand("rateguard", 1000, 900, 100) == [880, 120]
    assert by_demand("rateguard", 1000, 0, 0) == [500, 500]


def test_doormans_own_example() -> None:
    """1,000, 50 and 10 of 120: proportional 69.69, 40.31, 10 and fair 60, 50, 10."""
    assert by_demand("doorman-proportional", 12_000, 100_000, 5000, 1000) == [6969, 4031, 1000]
    assert by_demand("doorman-fair", 120, 1000, 50, 10) == [60, 50, 10]


def test_doorman_gives_everybody_what_it_wants_while_it_can() -> None:
    """Doorman's law leaves no headroom."""
    assert by_demand("doorman-proportional", 1000, 100, 500) == [100, 500]
    assert by_demand("doorman-fair", 1000, 100, 500) == [100, 500]


def test_doormans_fair_share_can_leave_something_over() -> None:
    """Demands of many sizes need more than its two rounds of redistribution."""
    wants = [10, 520, 590, 630, 660, 100_000]

    assert sum(by_demand("doorman-fair", 3000, *wants)) < 3000
    assert sum(LAWS["max-min"](3000, {str(w): Claim(w) for w in wants}).targets.values()) == 3000


def test_fps_shares_by_flows() -> None:
    """3 and 7 saturated flows of 10 Mbit/s (Raghavan et al., SIGCOMM 2007): 3 and 7."""
    claims = {"a": Claim(None, weight=3), "b": Claim(None, weight=7)}

    assert shares(COMPARISON_LAWS["fps"], 10, **claims) == {"a": 3, "b": 7}


def test_fps_leaves_an_unsaturated_limiter_what_it_admits() -> None:
    """The rest goes to saturated limiters."""
    claims = {"calm": Claim(100, used=100), "a": Claim(None, used=10), "b": Claim(900, used=20)}

    assert shares(COMPARISON_LAWS["fps"], 1000, **claims) == {"calm": 100, "a": 450, "b": 450}

"""One split of messages and bytes is exact, fair by dominant share, and does not oscillate."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.allocation.laws import Claim, JointClaim, joint_max_min, max_min
from coordinator.core.model import Dimension, Rates, Unit
from coordinator.insight.model.explain import explain
from tests.core.cluster import GROUP, Cluster

BROKERS = [f"broker-{i}" for i in range(8)]
Claims = dict[str, JointClaim]

joint_claims = st.builds(
    lambda messages, size, hidden, weight: JointClaim((messages, messages * size), hidden, weight),
    st.integers(0, 10_000),
    st.integers(1, 1000),
    st.booleans(),
    st.integers(1, 5),
)
claims_of_some = st.dictionaries(st.sampled_from(BROKERS), joint_claims, min_size=1)
limits_of_both = st.tuples(st.integers(0, 50_000), st.integers(0, 5_000_000))


def slow_joint(limits: tuple[int, int], claims: Claims) -> dict[str, list[Fraction]]:
    """Follow the definition: raise all shares together until each has enough or a unit is used up."""
    got = {name: [Fraction(0), Fraction(0)] for name in claims}
    left = [Fraction(limit) for limit in limits]
    rising = dict(claims)
    while rising and min(left) > 0:
        speeds = {name: _speed(limits, claim) for name, claim in rising.items()}
        steps = [
            max(
                (claim.wants[unit] - got[name][unit]) / speeds[name][unit]
                for unit in (0, 1)
                if speeds[name][unit]
            )
            for name, claim in rising.items()
            if not claim.hidden
        ]
        totals = [sum(speed[unit] for speed in speeds.values()) for unit in (0, 1)]
        steps += [left[unit] / totals[unit] for unit in (0, 1) if totals[unit]]
        for name, speed in speeds.items():
            for unit in (0, 1):
                got[name][unit] += min(steps) * speed[unit]
                left[unit] -= min(steps) * speed[unit]
        rising = {
            name: claim
            for name, claim in rising.items()
            if claim.hidden or any(got[name][unit] < claim.wants[unit] for unit in (0, 1))
        }
    whole = sum(claim.weight for claim in claims.values())
    return {
        name: [got[name][unit] + left[unit] * claim.weight / whole for unit in (0, 1)]
        for name, claim in claims.items()
    }


def _speed(limits: tuple[int, int], claim: JointClaim) -> list[Fraction]:
    """Return the messages and bytes that a participant takes per step of its share."""
    parts = [Fraction(wants, limit) for wants, limit in zip(claim.wants, limits, strict=True)]
    share = max(parts)
    ratio = [part / share for part in parts] if share else [Fraction(1), Fraction(1)]
    return [claim.weight * limit * part for limit, part in zip(limits, ratio, strict=True)]


def targets_of(limits: tuple[int, int], claims: Claims) -> dict[str, tuple[int, int]]:
    """Return both targets of each broker."""
    answer = joint_max_min(limits, claims)
    return {name: (answer.messages.targets[name], answer.bytes.targets[name]) for name in claims}


def distance(limits: tuple[int, int], claims: Claims) -> Fraction:
    """Return the largest distance of a target from the exact one, in units."""
    exact = slow_joint(limits, claims)
    found = targets_of(limits, claims)
    return max(abs(found[name][unit] - exact[name][unit]) for name in claims for unit in (0, 1))


@given(limits=limits_of_both, claims=claims_of_some)
def test_both_limits_are_handed_out_to_the_last_unit(
    limits: tuple[int, int], claims: Claims
) -> None:
    """For any demands the targets add up to both limits, and no target is negative."""
    targets = targets_of(limits, claims)

    assert tuple(map(sum, zip(*targets.values(), strict=True))) == limits
    assert all(min(target) >= 0 for target in targets.values())


def test_it_is_exact_on_many_random_instances() -> None:
    """A thousand, over many magnitudes, with ties, zeros and hidden demands; seed 2011."""
    rng = random.Random(2011)
    worst = Fraction(0)
    for _ in range(1_000):
        limits = (round(10 ** rng.uniform(0, 6)), round(10 ** rng.uniform(0, 10)))
        sizes = [round(10 ** rng.uniform(0, 6)) for _ in range(3)]
        claims = {}
        for name in BROKERS[: rng.randint(1, 8)]:
            messages = rng.choice([0, limits[0] // 4, round(limits[0] * rng.random() ** 3)])
            wants = (messages, messages * rng.choice(sizes))
            claims[name] = JointClaim(wants, rng.random() < 0.4, rng.choice([1, 1, 2, 40]))
        worst = max(worst, distance(limits, claims))

    assert worst < 1, "seed 2011"


@given(limit=st.integers(1, 50_000), claims=claims_of_some)
def test_a_unit_that_is_never_scarce_leaves_max_min_as_it_is(limit: int, claims: Claims) -> None:
    """Messages are then split as if they were the only limit, to the last unit."""
    alone = {
        name: Claim(None if claim.hidden else claim.wants[0], claim.weight)
        for name, claim in claims.items()
    }
    known = {
        name: JointClaim((messages, 10 * messages), claim.hidden, claim.weight)
        for name, claim in claims.items()
        for messages in [claim.wants[0] + claim.hidden]
    }
    answer = joint_max_min((limit, 1 << 60), known)

    assert answer.messages == max_min(limit, alone)


@given(limits=limits_of_both, claims=claims_of_some, shuffler=st.randoms(use_true_random=False))
def test_the_order_of_the_claims_does_not_matter(
    limits: tuple[int, int], claims: Claims, shuffler: random.Random
) -> None:
    """All sidecars compute the same targets."""
    shuffled = list(claims.items())
    shuffler.shuffle(shuffled)

    assert joint_max_min(limits, dict(shuffled)) == joint_max_min(limits, claims)


@given(limits=limits_of_both, claims=claims_of_some, factor=st.integers(2, 1000))
def test_bytes_may_be_counted_in_anything(
    limits: tuple[int, int], claims: Claims, factor: int
) -> None:
    """Bytes or kilobytes: messages are split alike, bytes times as many, to within one old unit."""
    before = joint_max_min(limits, claims)
    after = joint_max_min(
        (limits[0], limits[1] * factor),
        {
            name: JointClaim((claim.wants[0], claim.wants[1] * factor), claim.hidden, claim.weight)
            for name, claim in claims.items()
        },
    )

    for name in claims:
        assert abs(after.messages.targets[name] - before.messages.targets[name]) <= 1
        scaled = factor * before.bytes.targets[name]
        assert abs(after.bytes.targets[name] - scaled) <= factor + 1


@given(limits=limits_of_both, claims=claims_of_some)
def test_each_broker_gets_at_least_its_own_part_of_both_limits(
    limits: tuple[int, int], claims: Claims
) -> None:
    """The sharing incentive: all it wants, or its weight's part of the unit that it uses most."""
    targets = targets_of(limits, claims)
    whole = sum(claim.weight for claim in claims.values())
    for name, claim in claims.items():
        parts = [limit * claim.weight // whole for limit in limits]
        satisfied = not claim.hidden and all(
            target >= wanted for target, wanted in zip(targets[name], claim.wants, strict=True)
        )
        assert satisfied or any(
            target >= part for target, part in zip(targets[name], parts, strict=True)
        )


@given(limits=limits_of_both, claims=claims_of_some, factor=st.integers(2, 50))
def test_more_of_both_limits_lowers_no_target(
    limits: tuple[int, int], claims: Claims, factor: int
) -> None:
    """Both limits times k: each broker passes at least as many messages.

    Of one limit alone that is not true: the other one is shared with those that the new room lets grow.
    """
    before = targets_of(limits, claims)
    after = targets_of((limits[0] * factor, limits[1] * factor), claims)

    for name, claim in claims.items():
        assert passed(claim, after[name]) >= passed(claim, before[name]) - 1


def passed(claim: JointClaim, target: tuple[int, int]) -> Fraction:
    """Return the messages that pass of a demand."""
    messages, bytes_ = claim.wants
    if not messages:
        return Fraction(0)
    most = min(Fraction(target[0]), Fraction(target[1] * messages, bytes_))
    return most if claim.hidden else min(most, Fraction(messages))


@given(limits=limits_of_both, claims=claims_of_some, factor=st.integers(2, 9))
def test_who_wants_more_in_the_same_proportion_gets_no_less(
    limits: tuple[int, int], claims: Claims, factor: int
) -> None:
    """No broker gains by understating or hiding its demand."""
    name, claim = min(claims.items())
    wants = (claim.wants[0] * factor, claim.wants[1] * factor)
    before = targets_of(limits, claims)[name]
    more = targets_of(limits, claims | {name: JointClaim(wants, claim.hidden, claim.weight)})[name]

    assert all(new >= old - 1 for new, old in zip(more, before, strict=True))


@given(limits=limits_of_both, claims=claims_of_some, heavier=st.integers(1, 5))
def test_of_two_alike_the_heavier_gets_no_less(
    limits: tuple[int, int], claims: Claims, heavier: int
) -> None:
    """This holds for messages and for bytes."""
    name, claim = min(claims.items())
    twin = JointClaim(claim.wants, claim.hidden, claim.weight + heavier)
    targets = targets_of(limits, claims | {"twin": twin})

    assert all(t >= s - 1 for t, s in zip(targets["twin"], targets[name], strict=True))


def test_two_that_use_different_units_have_the_same_share() -> None:
    """100 B against 10 kB of 1,000 messages and 5 MB: two thirds of what each uses most."""
    claims = {"a": JointClaim((1, 100), hidden=True), "b": JointClaim((1, 10_000), hidden=True)}
    answer = joint_max_min((1000, 5_000_000), claims)

    assert answer.binds is Unit.MESSAGES
    assert answer.messages.targets == {"a": 667, "b": 333}
    assert answer.bytes.targets["b"] >= 3_333_000
    assert answer.messages.water_level == 666


def test_who_has_not_shown_its_proportion_counts_as_using_both_alike() -> None:
    """A newcomer can begin with any message size."""
    claims = {"a": JointClaim((0, 0), hidden=True), "b": JointClaim((1, 10), hidden=True)}

    assert targets_of((1000, 100_000), claims)["a"] == (500, 72_500)


@pytest.mark.parametrize(
    ("limits", "binds"),
    [
        ((0, 9), Unit.MESSAGES),
        ((9, 0), Unit.BYTES),
        ((0, 1), Unit.MESSAGES),
        ((1, 0), Unit.BYTES),
        ((0, 0), Unit.MESSAGES),
    ],
)
def test_a_limit_of_zero_binds(limits: tuple[int, int], binds: Unit) -> None:
    """Nothing passes, and the split names the limit that binds; the level of that one is 0."""
    answer = joint_max_min(limits, {"a": JointClaim((5, 5)), "b": JointClaim((0, 0), hidden=True)})

    levels = {Unit.MESSAGES: answer.messages.water_level, Unit.BYTES: answer.bytes.water_level}
    assert answer.binds is binds
    assert levels == {unit: 0 if unit is binds else None for unit in Unit}


def after_rounds(together: bool, rounds: int) -> list[tuple[dict[str, int], int]]:
    """Messages that three brokers with messages of 100 B, 1 kB and 20 kB pass, and limits moved, a round.

    Of 3,000 messages and 10 MB. One wants 500 messages, the others all they can get; each reports as the
    gate would: what it is throttled in is hidden, of the other unit it wants what it uses.
    """
    limits, sizes = (3000, 10_000_000), {"a": 100, "b": 1000, "c": 20_000}
    held = dict.fromkeys(sizes, (1000, 3_333_333))
    history = []
    for _ in range(rounds):
        passed = {n: min(held[n][0], held[n][1] // size) for n, size in sizes.items()}
        passed["b"] = min(500, passed["b"])
        claims: tuple[dict[str, Claim], dict[str, Claim]] = ({}, {})
        joint = {}
        for name, size in sizes.items():
            used = (passed[name], passed[name] * size)
            by_messages = name != "b" and held[name][0] <= held[name][1] // size
            by_bytes = name != "b" and not by_messages
            claims[0][name] = Claim(None if by_messages else used[0])
            claims[1][name] = Claim(None if by_bytes else used[1])
            joint[name] = JointClaim((1, size) if name != "b" else used, hidden=name != "b")
        before = held
        if together:
            held = targets_of(limits, joint)
        else:
            apart = [max_min(limit, claims[unit]).targets for unit, limit in enumerate(limits)]
            held = {name: (apart[0][name], apart[1][name]) for name in sizes}
        moved = sum(a != b for name in sizes for a, b in zip(before[name], held[name], strict=True))
        history.append((passed, moved))
    return history


def test_two_splits_strand_and_chase_each_other_and_one_does_not() -> None:
    """The last twenty of sixty rounds at constant demand: limits moved, messages stranded, shares."""
    apart, together = after_rounds(False, 60)[-20:], after_rounds(True, 60)[-20:]

    assert sum(moved for _, moved in apart) >= 20
    assert sum(sum(passed.values()) for passed, _ in apart) < 0.97 * 20 * 3000
    assert sum(moved for _, moved in together) == 0
    assert all(sum(passed.values()) == 3000 for passed, _ in together)
    shares = [together[-1][0]["a"] / 3000, together[-1][0]["c"] * 20_000 / 10_000_000]
    assert shares[0] == pytest.approx(shares[1], abs=0.001)


@pytest.mark.parametrize("policy", ["balanced", "eager", "strict"])
def test_cores_settle_on_the_same_share_and_move_no_limit_afterwards(policy: str) -> None:
    """Two brokers with small and large messages, from a cold start; then a minute without a change."""
    cluster = Cluster(limit=1000, bytes_limit=5_000_000, policy=policy)
    cluster.sizes = {"b1": 100, "b2": 10_000}
    for broker in cluster.sizes:
        cluster.start(broker, demand=5000)
    cluster.run(6)
    settled = {broker: state.limits() for broker, state in cluster.states.items()}
    settled = {broker: dict(limits) for broker, limits in settled.items()}
    cluster.run(60)

    assert cluster.limit_of("b1") == pytest.approx(667, abs=2)
    assert cluster.limit_of("b2") == pytest.approx(333, abs=2)
    assert {broker: dict(state.limits()) for broker, state in cluster.states.items()} == settled
    cluster.validate()
    in_force = [state.limits().get(GROUP, Rates()) for state in cluster.states.values()]
    assert sum(rates.publish_messages or 0 for rates in in_force) <= 1000
    assert sum(rates.publish_bytes or 0 for rates in in_force) <= 5_000_000


@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_who_wants_everything_after_little_gets_its_share_when_both_units_run_out_together(
    policy: str,
) -> None:
    """1,000 messages and 1 MB a second, all messages of 1 kB: neither unit is the only one short."""
    brokers = ["b1", "b2", "b3"]
    cluster = Cluster(limit=1000, bytes_limit=1_000_000, policy=policy)
    cluster.sizes = dict.fromkeys(brokers, 1000)
    for broker, demand in zip(brokers, (9000, 9000, 5), strict=True):
        cluster.start(broker, demand)
    cluster.run(20)
    cluster.want("b3", 9000)
    cluster.run(4)
    limits = [cluster.limit_of(broker) for broker in brokers]
    cluster.run(20)

    assert [cluster.limit_of(broker) for broker in brokers] == limits
    assert min(limits) >= 330


def test_another_message_size_is_followed_without_being_cut_first() -> None:
    """Headroom in the unit that does not bind carries messages twice as large at once."""
    cluster = Cluster(limit=1000, bytes_limit=5_000_000)
    cluster.sizes = {"b1": 100, "b2": 1000}
    for broker in cluster.sizes:
        cluster.start(broker, demand=5000)
    cluster.run(6)
    before = len(cluster.admitted)
    cluster.sizes["b2"] = 4000
    cluster.run(3)

    assert min(sum(step.values()) for step in cluster.admitted[before:]) == 1000


def test_explain_says_which_unit_binds() -> None:
    """It also says how much of the other unit is used."""
    cluster = Cluster(limit=1000, bytes_limit=5_000_000)
    cluster.sizes = {"b1": 100, "b2": 10_000}
    for broker in cluster.sizes:
        cluster.start(broker, demand=5000)
    cluster.run(6)
    state = cluster.states["b1"]
    by_messages = explain(state, GROUP, Dimension.PUBLISH_MESSAGES, "b1", cluster.now_ns)
    by_bytes = explain(state, GROUP, Dimension.PUBLISH_BYTES, "b1", cluster.now_ns)

    assert (by_messages.binds, by_bytes.binds) == (Unit.MESSAGES, Unit.MESSAGES)
    assert by_messages.sentence == (
        "2 brokers want more messages than there are, so each is cut at the same share of the limit "
        "that it uses most, 66.6 %: b1 gets 667/s of the 1,000/s. "
        "Messages bind, bytes do not (67 % of 5,000,000/s used)."
    )
    assert by_bytes.sentence.endswith("Messages bind, bytes do not (67 % of 5,000,000/s used).")

"""Specifications of instances and what is advised."""

from __future__ import annotations

import random

import pytest

from coordinator.core.model import Dimension, Rates
from coordinator.insight.model.specification import Advice, Specification, advice, partitions_for


@pytest.mark.shows("service-cluster/ratio")
def test_a_specification_is_split_by_the_allocation_ratio() -> None:
    """Each message is consumed three times, so a quarter is for production."""
    limits = Specification(40_000, 200_000_000, production_permille=250).limits()
    assert limits == Rates(10_000, 50_000_000, 30_000, 150_000_000)


def test_the_parts_add_up_and_tell_the_specification_again() -> None:
    """Rounding loses and adds nothing."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    dice = random.Random(seed)
    for _ in range(500):
        wanted = Specification(
            dice.randint(1_000, 10**7), dice.randint(1_000, 10**11), dice.randint(0, 1_000)
        )
        found = Specification.of(wanted.limits())
        assert (found.messages, found.bytes) == (wanted.messages, wanted.bytes)
        assert abs(found.production_permille - wanted.production_permille) <= 1


def test_what_is_not_specified_is_not_limited() -> None:
    """Only bytes, for example."""
    limits = Specification(None, 1_000).limits()
    assert limits == Rates(None, 500, None, 500)
    assert Specification.of(limits) == Specification(None, 1_000)
    assert Specification.of(Rates()) == Specification(None, None)


@pytest.mark.shows("service-cluster/over-80")
def test_above_four_fifths_more_is_advised() -> None:
    """To what would leave the same use at four fifths."""
    limits = Specification(20_000, None).limits()
    assert advice(limits, Rates(publish_messages=8_000)) == ()
    (found,) = advice(limits, Rates(publish_messages=9_000, dispatch_messages=100))
    sentence = (
        "Production uses 90 % of its 10,000 messages/s: with a specification of 22,500 messages/s "
        "at the same ratio it would use 80%."
    )
    assert found == Advice(Dimension.PUBLISH_MESSAGES, 9_000, 10_000, 22_500, sentence)


@pytest.mark.parametrize(
    ("used", "limit", "partitions"),
    [(800, 1_000, 1), (801, 1_000, 2), (5_000, 1_000, 7), (0, 5, 1)],
)
@pytest.mark.shows("service-partition/over-80")
def test_partitions_are_advised_so_that_each_uses_four_fifths(
    used: int, limit: int, partitions: int
) -> None:
    """The fewest that do."""
    assert partitions_for(used, limit) == partitions

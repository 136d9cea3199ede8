"""The trim takes out the messages that batches add."""

from __future__ import annotations

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.trim import LEAST_PERMILLE, WHOLE, Trim

S = NANOS_PER_SECOND


def run(trim: Trim, over: float, seconds: int, limit: int = 1_000) -> None:
    """Run a broker that admits this much more than its limit, for this long."""
    for _ in range(2 * seconds):
        trim.count(int(limit * trim.permille / WHOLE * over / 2), limit, S // 2, held=True)


def test_a_broker_that_admits_more_comes_to_its_limit() -> None:
    """Within a look or two."""
    trim = Trim(1)
    run(trim, 1.08, 60)
    assert abs(trim.permille * 1.08 - WHOLE) <= 12


def test_what_is_no_longer_needed_ends() -> None:
    """It never goes above what the limit asks for."""
    trim = Trim(1)
    run(trim, 1.08, 60)
    run(trim, 1.0, 120)
    assert trim.permille >= 988
    run(trim, 0.9, 120)
    assert trim.permille == WHOLE


def test_it_is_bounded() -> None:
    """This holds for any counts."""
    trim = Trim(1)
    run(trim, 50.0, 60)
    assert trim.permille == LEAST_PERMILLE


def test_a_limit_that_moves_and_who_does_not_wait_teach_nothing() -> None:
    """Admitted messages say nothing of a limit that moved or does not bind."""
    trim = Trim(1)
    for number in range(200):
        trim.count(2_000, 1_000 + 50 * (number % 2), S // 2, held=True)
        trim.count(2_000, 1_000, S // 2, held=False)
    assert trim.permille == WHOLE

"""A sample of `make fuzz`, with a seed of its own each time."""

from __future__ import annotations

import random

import pytest

from tests.gate.fuzz import fuzz


@pytest.mark.slow
def test_damaged_frames_end_with_a_reason_or_pass() -> None:
    """No exception but the one, bounded memory, balanced books; the failure names seed and case."""
    outcomes = fuzz(random.randrange(2**32), 300)

    assert outcomes["goes on"] > 5
    assert len(outcomes) > 5, "the damage finds many kinds of faults"

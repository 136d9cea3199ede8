"""The witness of the machine, kept from its turn on purpose."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from deploy.demo.turns import TurnWitness

pytestmark = pytest.mark.slow

#: Added up in one go by code that keeps the interpreter to itself, as another process takes a processor:
#: a tenth of a second and more.
_NUMBERS = range(10_000_000)


def test_a_thread_that_is_kept_from_its_turn_has_waited() -> None:
    """One after the other, each for longer than Python's own threads need to hand over."""
    began_s = time.monotonic()
    with TurnWitness() as witness:
        while not witness.waits:
            assert time.monotonic() < began_s + 60
            sum(_NUMBERS)
            # So that the witness can say what it has seen.
            time.sleep(0.05)
    ended_s = time.monotonic()
    moments = [moment for wait in witness.waits for moment in (wait.from_s, wait.until_s)]
    assert all(before <= after for before, after in pairwise([began_s, *moments, ended_s]))
    assert all(wait.until_s - wait.from_s > 0.03 for wait in witness.waits)

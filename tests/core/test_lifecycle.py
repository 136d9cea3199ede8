"""The lifecycle: one table, and nothing that is not in it."""

from itertools import product

import pytest

from coordinator.core.lifecycle import (
    TRANSITIONS,
    IllegalTransition,
    Lifecycle,
    Trigger,
    next_state,
)


@pytest.mark.parametrize(("state", "trigger"), list(product(Lifecycle, Trigger)))
def test_a_transition_is_in_the_table_or_it_raises(state: Lifecycle, trigger: Trigger) -> None:
    """The test tries every trigger in every state."""
    if (state, trigger) in TRANSITIONS:
        assert next_state(state, trigger) is TRANSITIONS[state, trigger]
    else:
        with pytest.raises(IllegalTransition, match=f"{trigger.value} in state {state.value}"):
            next_state(state, trigger)


def test_a_sidecar_that_has_not_joined_never_becomes_active() -> None:
    """ACTIVE is reached only through LEARNING or back from DEGRADED."""
    into_active = {state for (state, _), after in TRANSITIONS.items() if after is Lifecycle.ACTIVE}

    assert into_active == {Lifecycle.LEARNING, Lifecycle.DEGRADED}


def test_a_drain_is_possible_from_every_living_state_and_ends_in_stopped() -> None:
    """SIGTERM is never refused, and nothing comes after STOPPED."""
    living = set(Lifecycle) - {Lifecycle.DRAINING, Lifecycle.STOPPED}

    assert {state for state, trigger in TRANSITIONS if trigger is Trigger.DRAIN} == living
    assert not [state for state, _ in TRANSITIONS if state is Lifecycle.STOPPED]

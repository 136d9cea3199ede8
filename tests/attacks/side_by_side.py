"""Many attacks at once on one limit, each on a connection of its own.

What gets round the limit comes on top of what the limit lets pass, so the sum shows it. A sum that is too
high is followed by each attack alone, which tells the one that gets round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tests.attacks.conftest import Target

Attack = Callable[[], None]


def assert_none_leaves(target: Target, attacks: Mapping[str, Attack]) -> None:
    """All attacks at once publish no more than the limit allows, and none fails.

    Args:
        target: whose limit it is.
        attacks: by name; each connects, publishes for a while, and hangs up.
    """
    target.measure()
    with ThreadPoolExecutor(len(attacks)) as attackers:
        started = {name: attackers.submit(attack) for name, attack in attacks.items()}
    failed = {name: each.exception() for name, each in started.items() if each.exception()}
    assert not failed, failed
    if target.is_held():
        return
    messages, rate = target.passed()
    alone = [name for name, attack in attacks.items() if not is_held_alone(target, attack)]
    raise AssertionError(f"all at once: {messages}, {rate:.0f}/s; these alone: {alone or 'none'}")


def is_held_alone(target: Target, attack: Attack) -> bool:
    """Whether one attack publishes no more than the limit allows."""
    target.measure()
    attack()
    return target.is_held()

"""Many attacks at once on one limit, each on a connection of its own.

What gets round the limit comes on top of what the limit lets pass, so the sum shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tests.attacks.conftest import LIMIT, SLACK_S, Target

Found = TypeVar("Found")


def assert_none_leaves(target: Target, attacks: Mapping[str, Callable[[], None]]) -> None:
    """By the broker's counter, all attacks together publish no more than the limit allows.

    A sum that is too high is followed by each attack alone, which tells the one that gets round.

    Args:
        target: whose limit it is.
        attacks: by name; each connects, publishes for a while, and hangs up.
    """
    target.measure()
    _at_once(attacks)
    if target.is_held():
        return
    messages, rate = target.passed()
    alone = []
    for name, attack in attacks.items():
        target.measure()
        attack()
        if not target.is_held():
            alone.append(name)
    raise AssertionError(f"all at once: {messages}, {rate:.0f}/s; these alone: {alone or 'none'}")


def assert_count_held(attacks: Mapping[str, Callable[[], int]], honest: str) -> None:
    """By the clients' own counts, all attacks together get no more than the limit allows.

    Args:
        attacks: by name; each returns the number of messages that passed.
        honest: the attack that is none, and gets some.
    """
    began_s = time.monotonic()
    found = _at_once(attacks)
    allowed = LIMIT * (time.monotonic() - began_s + SLACK_S)
    assert found[honest], f"{honest}: nothing passed, which every client may do"
    assert sum(found.values()) <= allowed, {name: count for name, count in found.items() if count}


def _at_once(attacks: Mapping[str, Callable[[], Found]]) -> dict[str, Found]:
    with ThreadPoolExecutor(len(attacks)) as attackers:
        started = {name: attackers.submit(attack) for name, attack in attacks.items()}
    failed = {name: each.exception() for name, each in started.items() if each.exception()}
    assert not failed, failed
    return {name: each.result() for name, each in started.items()}

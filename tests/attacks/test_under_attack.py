"""Under each attack the sidecar stays, and an honest client of the same gate goes on as before.

The attacker is a process of its own. An honest client publishes one message after the other, before the
attack and under it: its 99th percentile stays within 50 ms, or five times what it was. If the attack is
on a limit, the client is of the attacked group and offers less than a client's part of the limit.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.clients import quiet_client
from tests.attacks.attacker import WAYS
from tests.attacks.conftest import BROKER, LIMIT, Target
from tests.conftest import Measure
from tests.integration.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

ROOT = Path(__file__).resolve().parents[2]

ON_LIMITS = ("claims of millions of messages", "heads of 5 MiB", "three hundred producers")
"""Attacks on a limit: their victims are of the same group."""

RATE = 20.0
"""Messages per second of an honest client."""

PART = 0.6
"""The part that it offers of what it may have of an attacked limit, beside the attackers."""

SECONDS = 5.0


class Honest:
    """A stock client that publishes at a rate, one message after the other."""

    def __init__(self, port: int, topic: str, rate: float) -> None:
        self._client = quiet_client(f"pulsar://127.0.0.1:{port}")
        self._producer = self._client.create_producer(topic, batching_enabled=False)
        self._rate = rate

    def publish(self, seconds: float) -> list[float]:
        """Publish for a while; return the time that each message took until its receipt, sorted."""
        took, began_s, number = list[float](), time.monotonic(), 0
        while (now_s := time.monotonic()) < began_s + seconds:
            due_s = began_s + number / self._rate
            if due_s > now_s:
                time.sleep(due_s - now_s)
            sent_s = time.monotonic()
            self._producer.send(b"x" * 100)
            took.append(time.monotonic() - sent_s)
            number += 1
        return sorted(took)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


@contextmanager
def attacked(way: str, target: Target, strength: int) -> Iterator[None]:
    """Attack a gate meanwhile."""
    command = (sys.executable, "-m", "tests.attacks.attacker", way, str(target.port), target.topic)
    with subprocess.Popen((*command, str(strength)), cwd=ROOT, stdout=subprocess.PIPE) as attacker:
        try:
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == b"attacks\n"
            yield
            assert attacker.poll() is None, "the attacker has ended by itself"
        finally:
            attacker.kill()


def p99_ms(took: list[float]) -> float:
    """The 99th percentile, in milliseconds."""
    return took[len(took) * 99 // 100] * 1000


@pytest.mark.parametrize("strength", [1, 4])
@pytest.mark.parametrize("way", list(WAYS))
def test_an_honest_client_goes_on_under_attack(
    target: Target, free_world: World, measured: Measure, way: str, strength: int
) -> None:
    """No sidecar ends, no connection of others is lost, and no debt exceeds its bound."""
    on_limit = way in ON_LIMITS
    topic = target.topic if on_limit else free_world.topic_of[BROKER]
    gate = target.world.sidecars.gate(BROKER).pid
    clients = 1 + WAYS[way][1] * strength
    rate = PART * LIMIT / clients if on_limit else RATE
    honest = Honest(target.port, topic, rate)
    try:
        honest.publish(1.0)
        before = honest.publish(SECONDS / 2)
        with attacked(way, target, strength):
            under = honest.publish(SECONDS)
    finally:
        honest.close()

    name = f"{way}, {strength} x"
    bound_ms = max(50.0, 5 * p99_ms(before))
    measured(f"{name}: p99 of an honest client", p99_ms(under), "ms", most=bound_ms)
    measured(f"{name}: what it gets of its part", len(under) / SECONDS / rate, least=0.8)
    assert target.world.sidecars.gate(BROKER).pid == gate
    debt_s = target.debt_s()
    measured(f"{name}: the debt that it leaves", debt_s, "s", most=5.1)

"""Consumers of a topic without traffic have a permit each; all of them used at once keep to the limit."""

from __future__ import annotations

import time

import pytest

from tests.attacks.conftest import LIMIT, SLACK_S, Target
from tests.attacks.raw import RawClient
from tests.gate import peer
from tests.integration.world import eventually

pytestmark = pytest.mark.cluster

CONSUMERS = 300
BATCH = 200
DEBT_S = 5.0
PONG = 19


def test_one_batch_for_many_idle_consumers_comes_at_the_limit(target: Target) -> None:
    """Sixty thousand messages at 50 a second: what is not lent waits in the gate, and only that."""
    with RawClient(target.port) as idle, RawClient(target.broker.broker_port) as publisher:
        for number in range(1, CONSUMERS + 1):
            assert idle.open_consumer(target.topic, number, number, durable=False)
            assert idle.send(peer.flow(number, 1_000))
        assert publisher.open_producer(target.topic)
        sent, began_s = target.dispatched(), time.monotonic()
        assert publisher.send(peer.send(1, 0, BATCH, checksum=False))
        eventually(
            lambda: target.dispatched() >= sent + CONSUMERS * BATCH, "the broker has sent it to all"
        )
        eventually(lambda: idle.counted(9) > 0, "what is lent comes at once")

        assert idle.ask(peer.PING, {PONG}) is not None
        came, took_s = BATCH * idle.counted(9), time.monotonic() - began_s
        assert came <= LIMIT * (took_s + DEBT_S + SLACK_S)
        assert target.debt_s() <= DEBT_S
        assert target.figure("gate_held_frames") > 0
    eventually(lambda: target.figure("gate_held_frames") == 0, "who leaves takes them along")
    assert target.debt_s() <= DEBT_S

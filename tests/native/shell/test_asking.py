"""Brokers that are asked whether they are there."""

from __future__ import annotations

import asyncio
import socket

import pytest

from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from coordinator.native.shell.asking import Asking
from tests.memory.surroundings import ManualClock
from tests.native.shell.test_upkeep import S


class Doubting(Steering):
    """Doubts one broker, whatever is known of it."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self.broker = broker
        self.table.take(Statement(broker, {"g": Amounts(5)}, "", "p"), 1, 0)

    def doubted(self, now_ns: int) -> tuple[str, ...]:  # noqa: ARG002
        """Return that broker."""
        return (self.broker,)


def ask(broker: str) -> list[str]:
    """Return the brokers that are dead after this one was asked once."""
    steering = Doubting(broker)
    clock = ManualClock(S)
    asyncio.run(Asking(steering, clock, lambda: None).ask())
    return list(steering.table.dead(1, clock.now_ns()))


def test_one_that_refuses_is_dead_and_one_that_listens_is_not() -> None:
    """A port that is bound and does not listen refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"pulsar://127.0.0.1:{bound.getsockname()[1]}"
        assert ask(url) == [url]
        bound.listen()
        assert ask(url) == []


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "pulsar://[",
        "http://h",
        "pulsar://127.0.0.1:99999",
        "pulsar://a..b:6650",
        "pulsar://ä..b:6650",
        f"pulsar://{'a' * 64}:6650",
        "pulsar://a\x00b:6650",
    ],
)
def test_of_a_name_that_is_no_url_nothing_is_known(url: str) -> None:
    """Any producer on the topic can invent one."""
    assert ask(url) == []

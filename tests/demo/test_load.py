"""The pacing of the load, with a producer that counts instead of sending."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest

from deploy.demo.load import SendOutcomes, offer


class CountingProducer:
    """Takes messages; can hold the first one back for a while, as a full queue does."""

    def __init__(self, first_takes_s: float = 0.0) -> None:
        self.sent = 0
        self._first_takes_s = first_takes_s

    def send_async(self, message: bytes, _callback: Any) -> None:
        assert len(message) == 100
        if not self.sent:
            time.sleep(self._first_takes_s)
        self.sent += 1


def _offered(producer: CountingProducer, rate: int, length_s: float) -> tuple[int, float]:
    """Offer for a while; return what was sent and how long it really took."""
    stop = threading.Event()
    sender = threading.Thread(target=offer, args=(producer, rate, SendOutcomes(), stop))
    began_s = time.monotonic()
    sender.start()
    time.sleep(length_s)
    stop.set()
    sender.join()
    return producer.sent, time.monotonic() - began_s


@pytest.mark.slow
def test_load_is_offered_at_its_rate() -> None:
    """Never more than the time that has passed allows, and all of it on an idle machine."""
    sent, took_s = _offered(CountingProducer(), 2_000, 0.5)
    assert 0 < sent <= 2_000 * took_s


@pytest.mark.slow
def test_what_a_full_queue_held_back_is_not_made_up_for() -> None:
    """After 0.4 s of waiting come 0.05 s of arrears, not a flood of 0.4 s."""
    sent, took_s = _offered(CountingProducer(first_takes_s=0.4), 2_000, 0.5)
    assert sent <= 2_000 * (took_s - 0.4 + 0.05) + 2_000 * 0.05


def test_the_tally_tells_receipts_from_failures_and_begins_anew() -> None:
    """Each line of the load's output covers the time since the line before."""
    tally = SendOutcomes()
    for result in (pulsar.Result.Ok, pulsar.Result.Ok, pulsar.Result.Timeout):
        tally.sends()
        tally(result, SimpleNamespace())
    assert tally.take()[:2] == (2, 1)
    assert tally.take() == (0, 0, 0.0)


def test_the_latency_is_that_from_each_send_to_its_own_outcome() -> None:
    """Outcomes come in the order of the sends: the first waited for two seconds, the second for one."""
    tally = SendOutcomes()
    now_s = time.monotonic()
    tally.sent_s.extend([now_s - 2.0, now_s - 1.0])
    for _ in range(2):
        tally(pulsar.Result.Ok, SimpleNamespace())

    assert 1.5 <= tally.take()[2] < 2.5
    assert not tally.sent_s

"""The publisher of a run writes down every message, with its receipt or without."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

from deploy.chaos.clients import Diary, Publisher

Outcome = Callable[[Any, Any], None]


class FakeProducer:
    """Keeps what is sent, and answers when it is told to."""

    def __init__(self, stop_after: int, stop: threading.Event) -> None:
        self.sent: list[tuple[bytes, str, Outcome]] = []
        self._stop_after = stop_after
        self._stop = stop

    def send_async(self, data: bytes, outcome: Outcome, partition_key: str) -> None:
        self.sent.append((data, partition_key, outcome))
        if len(self.sent) >= self._stop_after:
            self._stop.set()


@pytest.fixture
def written() -> tuple[FakeProducer, list[str]]:
    """Twenty messages, of which the first was refused and all but the last got an answer."""
    stop = threading.Event()
    producer = FakeProducer(20, stop)
    file = io.StringIO()
    diary = Diary(file)
    publisher = Publisher(3, producer, 10_000, diary)
    publisher.run(stop)
    for number, (_, _, outcome) in enumerate(producer.sent[:-1]):
        outcome(pulsar.Result.Ok if number else pulsar.Result.Timeout, None)
    assert publisher.open == 1
    publisher.give_up()
    diary.write()
    return producer, file.getvalue().splitlines()


def test_messages_are_numbered_and_spread_over_keys(
    written: tuple[FakeProducer, list[str]],
) -> None:
    """From 0, without a gap."""
    producer, _ = written

    assert [int(data) for data, _, _ in producer.sent] == list(range(20))
    assert len({key for _, key, _ in producer.sent}) == 8


def test_every_message_is_a_line(written: tuple[FakeProducer, list[str]]) -> None:
    """A refused or unanswered message has no receipt."""
    _, lines = written
    words = [line.split() for line in lines]

    assert [int(number) for _, number, _, _ in words] == list(range(20))
    assert {place for place, _, _, _ in words} == {"3"}
    assert (words[0][3], words[19][3]) == ("Timeout", "-")
    assert all(float(receipt) >= float(sent_s) for _, _, sent_s, receipt in words[1:19])


def test_what_is_noted_while_the_diary_is_written_is_not_lost(tmp_path: Path) -> None:
    """Threads note while another one writes, at any moment."""
    with (tmp_path / "diary.txt").open("w") as file:
        diary = Diary(file)

        class Written:
            """A word whose writing takes as long as another thread's."""

            def __str__(self) -> str:
                diary.write()
                return "written"

        diary.note("before")
        diary.note(Written())
        diary.write()
    assert (tmp_path / "diary.txt").read_text() == "before\nwritten\n"

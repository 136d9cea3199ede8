"""The last words of the programs that fill and drain a backlog, with a client that has no broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest

from deploy.demo.backlog import drain, fill


class BacklogClient:
    """A client whose broker has these messages, some of them twice, and answers sends like this."""

    def __init__(self, *numbers: int, result: Any = pulsar.Result.Ok) -> None:
        self._numbers: Iterator[int] = iter(numbers)
        self._result = result
        self.acknowledged = 0

    def subscribe(self, *_: object, **__: object) -> BacklogClient:
        return self

    def create_producer(self, *_: object, **__: object) -> BacklogClient:
        return self

    def receive(self, timeout_millis: int) -> Any:
        assert timeout_millis
        number = next(self._numbers, None)
        if number is None:
            raise pulsar.Timeout
        message_id = SimpleNamespace(serialize=lambda: bytes([number]))
        return SimpleNamespace(message_id=lambda: message_id)

    def acknowledge(self, _message: Any) -> None:
        self.acknowledged += 1

    def send_async(self, _message: bytes, answered: Any) -> None:
        answered(self._result, None)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one event that was told, without its time."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {key: value for key, value in found.items() if key != "at_s"}


def test_a_backlog_is_drained_when_every_message_has_come(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that comes twice counts once, and is acknowledged both times."""
    client = BacklogClient(1, 2, 2, 3)

    drain(client, "t", 3, threading.Event())

    assert told(capsys) == {"event": "drained", "messages": 3}
    assert client.acknowledged == 4


def test_a_lost_message_is_told_as_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not waited for without an end, so the demo counts it and misses its target."""
    drain(BacklogClient(1, 2), "t", 3, threading.Event())

    assert told(capsys) == {"event": "drained", "messages": 2}


def test_a_backlog_is_filled_only_with_a_receipt_for_each_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A message that was refused would look like one that was lost."""
    fill(BacklogClient(), "t", 3)
    assert told(capsys) == {"event": "filled"}

    with pytest.raises(RuntimeError, match="3 messages were refused"):
        fill(BacklogClient(result=pulsar.Result.Timeout), "t", 3)

"""Logs in lines of JSON, at a level that is changed while it runs."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from coordinator.runtime.logs import configure_logs


@pytest.fixture(autouse=True)
def set_back() -> Iterator[None]:
    """The next test logs as if nothing had been configured."""
    handlers = list(logging.getLogger().handlers)
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


def test_a_logger_follows_the_level_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A logger that has logged before does so, too."""
    log = structlog.get_logger("before")
    level = configure_logs("info")
    log.debug("not told")
    log.info("told")
    level.set("debug")
    log.debug("told as well")
    level.set("error")
    log.warning("not told")

    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert events == ["told", "told as well"]
    assert level.name == "error"


def test_what_cannot_be_written_is_dropped_and_hurts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Standard error on a full disk; it logs on as soon as there is room."""

    class Disk(io.StringIO):
        full = True

        def write(self, text: str) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

        def flush(self) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")

    disk = Disk()
    monkeypatch.setattr("sys.stderr", disk)
    configure_logs("info")
    structlog.get_logger("ours").info("lost")
    logging.getLogger("a library").warning("lost as well")
    disk.full = False
    structlog.get_logger("ours").info("told")

    assert [json.loads(line)["event"] for line in disk.getvalue().splitlines()] == ["told"]


def test_what_is_logged_commands_no_terminal_and_is_one_line_of_ascii(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Names from outside in events and values, in what libraries say, and in tracebacks."""
    logging.getLogger().handlers.clear()  # those of pytest; they are set back
    name = "\x1b[2J\x9b31m\u202e\x7f\r\n{}\ud800"
    configure_logs("info")
    structlog.get_logger("ours").warning(name, topic=name, raw=name.encode("utf-8", "replace"))
    logging.getLogger("theirs").warning("connection of %s lost", name)
    try:
        dict[str, int]()[name]
    except KeyError:
        logging.getLogger("theirs").exception(name)

    written = capsys.readouterr().err
    assert written.isascii()
    assert not any(letter < " " or letter == "\x7f" for letter in written.replace("\n", ""))
    ours, theirs, failure = map(json.loads, written.splitlines())
    assert (ours["event"], ours["topic"]) == (name, name)
    assert theirs["event"] == f"connection of {name} lost"
    assert (theirs["level"], theirs["logger"]) == ("warning", "theirs")
    assert failure["exception"].startswith("Traceback")


def test_a_level_that_does_not_exist_changes_nothing() -> None:
    """The present one stays."""
    level = configure_logs("info")
    with pytest.raises(KeyError):
        level.set("loud")

    assert level.name == "info"

"""The log names connections, and its length is bounded."""

from __future__ import annotations

import pytest
import structlog

from coordinator.gate.server.log_ration import (
    LINES_MAX,
    TEXT_MAX,
    WINDOW_SWEEPS,
    LogRation,
    printable,
)


def test_a_flood_is_a_few_lines_and_a_number() -> None:
    """Each event has a ration of its own: a flood of one hides no other."""
    log = LogRation()
    with structlog.testing.capture_logs() as lines:
        for _ in range(10_000):
            log.warn("malformed frame", peer="10.0.0.1:5")
        log.warn("too many connections", peer="10.0.0.2:5")
        for _ in range(WINDOW_SWEEPS):
            log.sweep()
        log.warn("malformed frame", peer="10.0.0.1:6")

    told = [(line["event"], line.get("peer")) for line in lines]
    assert told == [
        *[("malformed frame", "10.0.0.1:5")] * LINES_MAX,
        ("too many connections", "10.0.0.2:5"),
        ("more of the same, not told one by one", None),
        ("malformed frame", "10.0.0.1:6"),
    ]
    assert lines[-2]["more"] == {"malformed frame": 10_000 - LINES_MAX}


def test_what_fits_is_not_told_again() -> None:
    """No line about nothing, however long it is quiet."""
    log = LogRation()
    with structlog.testing.capture_logs() as lines:
        log.tell("a producer", topic="t", partitions=3)
        for _ in range(5 * WINDOW_SWEEPS):
            log.sweep()

    assert lines == [
        {"event": "a producer", "log_level": "info", "topic": "t", "partitions": 3},
    ]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("plain, with spaces and ümläuts", "plain, with spaces and ümläuts"),
        ("\x1b[2J\x07red", "\\x1b[2J\\x07red"),
        ("a\nb\r\x9b1m\x7f", "a\\nb\\r\\x9b1m\\x7f"),
        ("\u202eright to left", "\\u202eright to left"),
        ("\udc80 half a pair", "\\udc80 half a pair"),
        ("x" * 10 * TEXT_MAX, "x" * TEXT_MAX),
    ],
)
def test_no_terminal_obeys_what_a_peer_said(said: str, told: str) -> None:
    """The log escapes control characters and cuts long lines."""
    assert printable(said) == told
    assert printable(said).isprintable()

"""A long job says how far it is, every few seconds; a short one says nothing."""

from __future__ import annotations

import time

import pytest

from spark_jobs.progress import Progress


def test_a_line_is_written_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the step's name, where steps have names."""
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    progress = Progress("files looked at", 100_000)
    for done in range(1, 1_300):
        now_s = 100.0 + done / 100
        progress.reached(done)
    now_s += 5.0
    progress.reached(2_000, "events")

    assert capsys.readouterr().err.splitlines() == [
        "files looked at: 500 of 100,000",
        "files looked at: 1,000 of 100,000",
        "files looked at: 2,000 of 100,000: events",
    ]

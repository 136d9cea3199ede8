"""The receipts in the logs of the loads."""

from __future__ import annotations

from pathlib import Path

from deploy.demo.receipts import read_receipts
from deploy.demo.recording import Receipts


def test_receipts_are_read_and_other_lines_are_left_out(tmp_path: Path) -> None:
    """The client's own log stands in the same file, and a killed load leaves half a line."""
    log = tmp_path / "load-a.log"
    log.write_text(
        '{"event": "connected", "at_s": 1.0}\n'
        "2026-11-25 02:00:00.000 WARN  ClientConnection:1 | reconnecting\n"
        '{"event": "receipts", "at_s": 2.0, "receipts": 998, "failed": 0, "latency_s": 1.5}\n'
        '{"event": "receipts", "at_s": 3.0, "rec'
    )

    found = read_receipts({"a": log, "b": tmp_path / "load-b.log"})

    assert found == (Receipts("a", 2.0, 998, 1.5),)

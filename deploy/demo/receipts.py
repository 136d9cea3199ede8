"""The clients' own word: the receipts in the logs of the loads (load.py says what a line holds)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from deploy.demo.recording import Receipts


def read_receipts(logs: Mapping[str, Path]) -> tuple[Receipts, ...]:
    """Read the receipts of each broker's load; other lines, such as the client's own log, are left out.

    Args:
        logs: the log of each broker's load, by broker.
    """
    return tuple(
        Receipts(broker, line["at_s"], int(line["receipts"]), line["latency_s"])
        for broker, log in logs.items()
        if log.exists()
        for line in _lines(log)
    )


def _lines(log: Path) -> list[dict[str, float]]:
    """The lines of receipts, without the word that says what they are."""
    found = []
    for text in log.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and line.pop("event", "") == "receipts":
            found.append(line)
    return found

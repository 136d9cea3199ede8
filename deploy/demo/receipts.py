"""The clients' own word: the receipts in the logs of the loads (load.py says what a line holds)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.demo.recording import Receipts


def read_receipts(logs: Mapping[str, Path]) -> tuple[Receipts, ...]:
    """Read the receipts of each broker's load; other lines, such as the client's own log, are left out.

    Args:
        logs: the log of each broker's load, by broker.
    """
    return tuple(
        Receipts(broker, line["at_s"], int(line["receipts"]), line["latency_s"])
        for broker, log in logs.items()
        for line in events(log)
        if line["event"] == "receipts"
    )


def events(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the events that a client's program has told in its log so far, one JSON object a line."""
    if not log.exists():
        return
    for text in log.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and "event" in line:
            yield line

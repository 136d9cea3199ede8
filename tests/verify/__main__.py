"""The measurement: `python -m tests.verify`, which is what `make verify` runs; ``ONLY=room`` for a part.

One test runs at a time with nothing beside it, room by room, each for ten minutes at most, after what it
needs was fetched. Rows go to
``build/verify.json`` and, as a table, to ``build/verify.md`` and the terminal. A test with a row that
misses its bound is run twice more, and the median decides. With ``ONLY`` the other rooms keep their rows
in the JSON file.

Exit codes: 0 all rows hold, 1 a row misses its bound or was not measured, 2 wrong use.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.__main__ import running
from tests.verify.fetching import fetch
from tests.verify.plugin import Noted, read
from tests.verify.rooms import MINUTES_MAX, ROOMS, Room
from tests.verify.rows import HELD, MISSED, MORE, Row, decided, table

BUILD: Final = Path(__file__).parents[2] / "build"
_JSON: Final = BUILD / "verify.json"
_SIDE_BY_SIDE: Final = ("--numprocesses", str(os.cpu_count() or 1), "--dist", "worksteal")


def main(arguments: list[str] | None = None) -> int:
    """Measure, show the table and write both files."""
    only = _parser().parse_args(arguments).only
    # Where it is ignored, as in a shell's background, tests would ignore it as well and never be ended.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rooms = [room for room in ROOMS if only in {None, room.name}]
    began_s, rows, told = time.monotonic(), dict[str, list[Row]](), earlier() if only else Told()
    BUILD.mkdir(exist_ok=True)
    for room in rooms:
        _say(f"\nRoom {room.name}: {room.says}")
        fetch(room.name)
        rows[room.name], figures = measure(room, MINUTES_MAX * 60.0)
        told.rooms[room.name] = [row.as_json() for row in rows[room.name]]
        told.figures |= figures
        _JSON.write_text(json.dumps(asdict(told), indent=1) + "\n", encoding="utf-8")
    shown = "\n\n".join(f"## {name}\n\n{table(each)}" for name, each in rows.items())
    (BUILD / "verify.md").write_text(shown + "\n", encoding="utf-8")
    every = [row for each in rows.values() for row in each]
    held = sum(row.verdict == HELD for row in every)
    _say(f"\n{shown}\n\nIn {(time.monotonic() - began_s) / 60:.1f} min: build/verify.json")
    _say(f"{held} passed, {len(every) - held} failed")
    return int(held < len(every))


@dataclass(slots=True)
class Told:
    """The contents of the JSON file: rows by room, and what tests say of rows of the source documents."""

    rooms: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)


def earlier() -> Told:
    """Return what was measured before; one room alone replaces its own rows."""
    return Told(**json.loads(_JSON.read_text(encoding="utf-8"))) if _JSON.exists() else Told()


def measure(room: Room, seconds: float) -> tuple[list[Row], dict[str, str]]:
    """Run the tests of a room, and those with a missed row again for as long as there is time.

    Returns:
        Its rows, and what its tests say of rows of the source documents.
    """
    until_s = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="pulsar-quota-verify-") as folder:
        first = once(room, room.paths, Path(folder) / "first.jsonl", until_s)
        runs, missed = [first], sorted({row.test for row in first.rows if row.verdict == MISSED})
        for number in range(MORE if missed else 0):
            if time.monotonic() < until_s:
                _say(f"Measured again: {', '.join(missed)}")
                runs.append(once(room, missed, Path(folder) / f"{number}.jsonl", until_s))
    again = decided([[row for row in run.rows if row.test in missed] for run in runs])
    ended = {row.test for row in first.rows}
    rows = [
        *(row for row in first.rows if row.test not in missed),
        *again,
        *(Row(test, told="no time was left") for test in first.tests if test not in ended),
    ]
    return rows, {name: text for run in runs for name, text in run.figures.items()}


def once(room: Room, paths: Sequence[str], file: Path, until_s: float) -> Noted:
    """Run tests until a moment; return what they noted."""
    watched = ("-p", "tests.verify.plugin", "--room", room.name, "--rows", str(file))
    order = _SIDE_BY_SIDE if room.side_by_side else ("-p", "no:randomly")
    command = (sys.executable, "-m", "pytest", "-q", *watched, *order, "-m", "verify", *paths)
    with running(command) as process:
        try:
            process.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            _say(f"Room {room.name} has had its {MINUTES_MAX} minutes.")
            process.send_signal(signal.SIGINT)
            process.wait()
    return read(file) if file.exists() else Noted()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # what the command is for


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.verify", description="Measure.")
    parser.add_argument("--only", choices=[room.name for room in ROOMS], help="one room")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())

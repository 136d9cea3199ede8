"""The least that a directory of recorded files must have to be read at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from coordinator.adapters.recorder.tables import SCHEMAS, RecordedTable
from tests.adapters.recorder.world import files_at

_ROW = {"cluster": "test", "run": "run-0", "resource_group": "orders", "admitted": 0}


def required(place: Path) -> None:
    """A row of each table without which nothing is read."""
    files = files_at(place, "run-0", "broker-0")
    for table in (RecordedTable.ADMITTED, RecordedTable.CONFIGURATION):
        files.write(table, "2027-01-15", pa.Table.from_pylist([_ROW], SCHEMAS[table]))

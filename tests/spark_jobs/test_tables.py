"""Writer and reader agree on every table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from coordinator.adapters.recorder import tables as writer
from spark_jobs import tables as reader

NAMES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.list_(pa.string()): "array<string>",
    pa.map_(pa.string(), pa.int64()): "map<string, bigint>",
    pa.map_(pa.string(), pa.map_(pa.string(), pa.int64())): "map<string, map<string, bigint>>",
}


@pytest.mark.parametrize("table", writer.RecordedTable)
def test_the_reader_expects_what_the_writer_writes(table: writer.RecordedTable) -> None:
    """The same columns of the same types in the same order."""
    written = [f"{field.name} {NAMES[field.type]}" for field in writer.SCHEMAS[table]]

    assert ", ".join(written) == " ".join(reader.SCHEMAS[table.value].split())


def test_both_mean_the_same_version() -> None:
    """No table is known to only one of them."""
    assert reader.SCHEMA_VERSION == writer.SCHEMA_VERSION
    assert [*reader.SCHEMAS] == [table.value for table in writer.RecordedTable]


@pytest.mark.parametrize("table", writer.RecordedTable)
def test_every_table_has_a_mark(table: writer.RecordedTable) -> None:
    """A column of its own, by which a foreign row is told."""
    mark = reader.MARKS[table.value]

    assert mark in writer.SCHEMAS[table].names[6:]

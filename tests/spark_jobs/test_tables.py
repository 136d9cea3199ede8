"""A reader tells a table's rows from those of others."""

from __future__ import annotations

import pytest

from coordinator.adapters.recorder import tables as writer
from spark_jobs import tables as reader


@pytest.mark.parametrize("table", writer.RecordedTable)
def test_every_table_has_a_mark(table: writer.RecordedTable) -> None:
    """A column of its own, by which a foreign row is told."""
    mark = reader.MARKS[table.value]

    assert mark in writer.SCHEMAS[table].names[6:]


def test_spark_is_told_every_column_with_its_type() -> None:
    """The same columns in the same order, times with a zone."""
    assert [*reader.SCHEMAS] == [table.value for table in writer.RecordedTable]
    assert reader.SCHEMAS["membership"].simpleString() == (
        "struct<cluster:string,broker:string,incarnation:bigint,run:string,ts:timestamp,"
        "monotonic_ns:bigint,member:string,member_incarnation:bigint,change:string>"
    )
    assert reader.SCHEMAS["operations"]["moved"].dataType.simpleString() == (
        "map<string,map<string,bigint>>"
    )

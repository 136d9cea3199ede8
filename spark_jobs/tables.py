"""The recorded tables as a reader knows them; the recorder's ``tables.py`` explains every column.

The schema is given to Spark explicitly: guessed from files it would differ from day to day.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator.adapters.recorder.tables import SCHEMAS as RECORDED
from coordinator.core.model import Dimension

SCHEMAS: Mapping[str, StructType] = {
    table.value: from_arrow_schema(schema) for table, schema in RECORDED.items()
}
"""Every table's columns, as Spark names their types."""

MARKS: Mapping[str, str] = {
    "reports": "direction",
    "limits": "round",
    "admitted": "admitted",
    "membership": "member",
    "configuration": "resource_group",
    "lifecycle": "cause",
    "operations": "stage",
    "certificates": "holders",
    "backlogs": "checked",
    "namespaces": "minute",
    "enforcement": "path",
    "escaped": "since",
    "trees": "weight",
}
"""A column of each table that every row has, and few other tables: by it a foreign file is told."""

REQUIRED = ("admitted", "configuration")
"""Without these there is no figure at all; without another one some figures are missing."""

RARE = (
    "operations", "certificates", "backlogs", "namespaces", "enforcement", "escaped", "trees",
)  # fmt: skip
"""Tables that a good recording may lack: nothing need have happened that is written there."""

DIMENSION_COLUMNS: Mapping[str, str] = {each.value: each.field for each in Dimension}
"""The column of ``configuration`` that holds each dimension's limit."""

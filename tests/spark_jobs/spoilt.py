"""A short recording, and how its files are spoilt."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from tests.spark_jobs.recorded import RecordedCluster


def record(place: Path, cluster: str = "test") -> None:
    """A short recording of one broker."""
    recorded = RecordedCluster(limit=100, place=place, cluster=cluster)
    recorded.start("broker-1", demand=200)
    recorded.run(3)
    recorded.write()


def file_of(place: Path, table: str) -> Path:
    """The only file of a table."""
    (path,) = place.glob(f"table={table}/date=*/*.parquet")
    return path


def rewrite(path: Path, metadata: dict[bytes, bytes]) -> None:
    """Change a file's metadata."""
    content = pq.ParquetFile(path).read()  # without the columns that its directories would add
    said = content.schema.metadata | metadata
    pq.write_table(content.replace_schema_metadata(said), path)

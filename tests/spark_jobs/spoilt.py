"""A short recording, and how its files are spoilt."""

from __future__ import annotations

from pathlib import Path

from tests.spark_jobs.recorded import RecordedCluster


def record(place: Path, cluster: str = "test") -> None:
    """A short recording of one broker."""
    recorded = RecordedCluster(limit=100, place=place, cluster=cluster)
    recorded.start("broker-1", demand=200)
    recorded.run(3)
    recorded.write()


def file_of(place: Path, table: str) -> Path:
    """The only file of a table."""
    (path,) = place.glob(f"table={table}/version=1/date=*/*.parquet")
    return path

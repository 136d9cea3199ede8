"""The footer of a recorded file, read before any of its rows are."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.tables import (
    CLUSTER_KEY,
    FILE_KEY,
    REPLACES_KEY,
    SCHEMA_VERSION,
    SCHEMAS,
    TABLE_KEY,
    VERSION_KEY,
)

PREFIX = "table="
"""The beginning of the name of a table's directory."""

_READERS = 8
_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's description of itself, or the reason why it cannot be believed."""

    path: Path
    table: str
    cluster: str = ""
    file: str = ""
    rows: int = 0
    trouble: str = ""
    replaces: frozenset[str] = frozenset()


def is_finished(path: Path) -> bool:
    """Whether a file has been written to its end: then it has the name by which it is read."""
    return not path.name.startswith((".", "_"))


def read_footers(paths: Iterable[Path], directory: Path) -> list[Footer]:
    """The footers of files below a directory, in their order."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda path: _read(path, directory), paths))


def _read(path: Path, directory: Path) -> Footer:
    parts = [part for part in path.relative_to(directory).parts if part.startswith(PREFIX)]
    table = parts[0].removeprefix(PREFIX) if parts else ""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC))
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        return Footer(path, table, trouble=f"truncated or no Parquet file: {reason}")
    if begins != _MAGIC:
        # The footer stands at the end: a file whose beginning was lost still has one.
        return Footer(path, table, trouble="damaged: it does not begin as a Parquet file does")
    says = metadata.metadata or {}
    if VERSION_KEY not in says:
        return Footer(path, table, trouble="not written by a recorder: no schema version")
    version = says[VERSION_KEY].decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        return Footer(
            path, table, trouble=f"schema version {version}; this release reads {SCHEMA_VERSION}"
        )
    named = says.get(TABLE_KEY, b"").decode(errors="replace")
    if named not in SCHEMAS or named != table:
        return Footer(path, table, trouble=f"a file of table {named!r} in {PREFIX}{table}")
    return Footer(
        path,
        table,
        cluster=says.get(CLUSTER_KEY, b"").decode(errors="replace"),
        file=says.get(FILE_KEY, b"").decode(errors="replace"),
        rows=metadata.num_rows,
        replaces=frozenset(says.get(REPLACES_KEY, b"").decode(errors="replace").split()),
    )

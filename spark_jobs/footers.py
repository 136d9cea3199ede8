"""The footer of a recorded file, read before any of its rows are."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.progress import Progress
from spark_jobs.stores import NoSuchFile, Store, StoredFile, StoreFailure
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

SUFFIX = ".parquet"

_READERS = 32
"""Footers that are read at a time: most of a read in a store is waiting."""
_MAGIC = b"PAR1"
_END = len(_MAGIC) + 4
"""Bytes behind a footer: its length and the magic word."""
_TAIL = 64 * 2**10
"""A footer is in there, as a rule, and a small file as a whole."""
_FOOTER_MAX = 16 * 2**20
"""A longer footer is none of a recorder's."""


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's description of itself, or the reason why it cannot be believed."""

    stored: StoredFile
    table: str
    cluster: str = ""
    file: str = ""
    rows: int = 0
    trouble: str = ""
    replaces: frozenset[str] = frozenset()
    #: The file was deleted since it was listed.
    gone: bool = False


def is_finished(file: StoredFile) -> bool:
    """Whether a file has been written to its end: then it has the name by which it is read."""
    return not file.name.startswith((".", "_"))


def read_footers(store: Store, files: Sequence[StoredFile]) -> list[Footer]:
    """The footers of files below a directory, in their order."""
    progress = Progress("files looked at", len(files))
    footers = []
    with ThreadPoolExecutor(_READERS) as pool:
        for footer in pool.map(lambda file: _read(store, file), files):
            footers.append(footer)
            progress.reached(len(footers))
    return footers


def _read(store: Store, file: StoredFile) -> Footer:
    parts = [part for part in file.below.split("/") if part.startswith(PREFIX)]
    table = parts[0].removeprefix(PREFIX) if parts else ""
    try:
        begins, end = _ends(store, file)
        metadata = pq.read_metadata(pa.BufferReader(end))
    except NoSuchFile as error:
        return Footer(file, table, trouble=str(error), gone=True)
    except FileNotFoundError:
        return Footer(file, table, trouble="deleted since it was listed", gone=True)
    except StoreFailure:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        return Footer(file, table, trouble=f"truncated or no Parquet file: {reason}")
    if begins != _MAGIC:
        # The footer stands at the end: a file whose beginning was lost still has one.
        return Footer(file, table, trouble="damaged: it does not begin as a Parquet file does")
    return _believed(file, table, metadata)


def _believed(file: StoredFile, table: str, metadata: pq.FileMetaData) -> Footer:
    says = metadata.metadata or {}
    if VERSION_KEY not in says:
        return Footer(file, table, trouble="not written by a recorder: no schema version")
    version = says[VERSION_KEY].decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        return Footer(
            file, table, trouble=f"schema version {version}; this release reads {SCHEMA_VERSION}"
        )
    named = says.get(TABLE_KEY, b"").decode(errors="replace")
    if named not in SCHEMAS or named != table:
        return Footer(file, table, trouble=f"a file of table {named!r} in {PREFIX}{table}")
    return Footer(
        file,
        table,
        cluster=says.get(CLUSTER_KEY, b"").decode(errors="replace"),
        file=says.get(FILE_KEY, b"").decode(errors="replace"),
        rows=metadata.num_rows,
        replaces=frozenset(says.get(REPLACES_KEY, b"").decode(errors="replace").split()),
    )


def _ends(store: Store, file: StoredFile) -> tuple[bytes, bytes]:
    """The first bytes of a file, and its last ones with the whole footer."""
    start = max(0, file.size - _TAIL)
    end = store.read(file, start, file.size - start)
    begins = end[: len(_MAGIC)] if not start else store.read(file, 0, len(_MAGIC))
    needed = int.from_bytes(end[-_END : -len(_MAGIC)], "little") + _END
    if start and len(end) < needed <= min(file.size, _FOOTER_MAX):
        end = store.read(file, file.size - needed, needed)
    return begins, end

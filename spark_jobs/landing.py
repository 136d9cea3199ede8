"""A folder that is read while files land in it: each is looked at before its rows count.

What a stream has said of a second is final, so it cannot leave a file out, as the report does: the second
would lack a sidecar for good. Where the report would skip a file the stream ends, by the file's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.footers import PREFIX, SUFFIX, is_finished, read_footers
from spark_jobs.places import StorePlace, place_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.stores import NoSuchFile, StoredFile, store_of


class Landing:
    """Files of some tables, each of which is looked at once.

    Args:
        directory: what the sidecars record to.
        tables: whose files are looked at.
        spark: the session, where a store needs one.
    """

    def __init__(
        self, directory: Path | StorePlace, tables: Sequence[str], spark: SparkSession | None = None
    ) -> None:
        self._directory = place_of(directory)
        self._store = store_of(self._directory, spark)
        self._tables = tables
        self._good: set[str] = set()

    def look(self) -> None:
        """Look at what has landed since the last look.

        Raises:
            RefusedInput: a file that the report would skip; the message names it and says why.
            StoreFailure: the store does not answer.
        """
        there = {file.place.url: file for table in self._tables for file in self._files_of(table)}
        new = [file for url, file in there.items() if url not in self._good]
        footers = read_footers(self._store, new)
        # Since it was listed a file may have been merged with others, or its time be over.
        bad = [
            footer
            for footer in footers
            if footer.trouble and not footer.gone and self._store.exists(footer.stored.place)
        ]
        if bad:
            others = f" ({len(bad)} files in all)" if len(bad) > 1 else ""
            raise RefusedInput(
                f"{bad[0].stored.below}: {bad[0].trouble}{others}; once it is mended or taken away"
                " the stream goes on where it was"
            )
        self._good = set(there)

    def _files_of(self, table: str) -> list[StoredFile]:
        place = f"{PREFIX}{table}"
        try:
            found = self._store.files(self._directory / place)
        except NoSuchFile:
            return []
        return [
            replace(file, below=f"{place}/{file.below}")
            for file in found
            if is_finished(file) and file.name.endswith(SUFFIX)
        ]

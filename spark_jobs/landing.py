"""A folder that is read while files land in it: each is looked at before its rows count.

What a stream has said of a second is final, so it cannot leave a file out, as the report does: the second
would lack a sidecar for good. Where the report would skip a file the stream ends, by the file's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spark_jobs.footers import PREFIX, is_finished, read_footers
from spark_jobs.intake import RefusedInput


class Landing:
    """Files of some tables, each of which is looked at once.

    Args:
        directory: what the sidecars record to.
        tables: whose files are looked at.
    """

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        self._directory = directory
        self._places = [directory / f"{PREFIX}{table}" for table in tables]
        self._good: set[Path] = set()

    def look(self) -> None:
        """Look at what has landed since the last look.

        Raises:
            RefusedInput: a file that the report would skip; the message names it and says why.
        """
        found = {path for place in self._places for path in place.rglob("*.parquet")}
        there = {path for path in found if is_finished(path) and path.is_file()}
        footers = read_footers(sorted(there - self._good), self._directory)
        # Since it was listed a file may have been merged with others, or its time be over.
        bad = [footer for footer in footers if footer.trouble and footer.path.exists()]
        if bad:
            name = bad[0].path.relative_to(self._directory)
            others = f" ({len(bad)} files in all)" if len(bad) > 1 else ""
            raise RefusedInput(
                f"{name}: {bad[0].trouble}{others}; once it is mended or taken away the stream goes"
                " on where it was"
            )
        self._good = there

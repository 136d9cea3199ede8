"""A frame of exactly the files that were looked at, when there are many.

Spark asks the store for each path that it is given, one after the other: 100,000 files of a store that
answers in 50 ms take hours, every time a table is read. A directory it lists in one go. So a directory
is given in place of its files, as long as what Spark has listed there is what was looked at: a file that
is skipped, a copy, or one that was written meanwhile must not be read. In other directories, and where
there are few files, each is given by its own name, and then a file that is gone ends the job by its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql.readwriter import DataFrameReader

FEW = 32
"""Files up to this number are given by name: to compare a listing takes about as long."""
_LISTINGS = 3
"""Listings that are compared; a place where files come and go faster is read file by file."""


def exactly(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """A frame of the rows of these files and of no others.

    Args:
        reader: with everything else that it needs.
        paths: of finished files, as Spark takes them.
    """
    if len(paths) <= FEW:
        return reader.parquet(*paths)
    wanted = _by_directory(paths)
    named = {place for place in wanted if any(_is_below(other, place) for other in wanted)}
    for _ in range(_LISTINGS):
        frame = reader.parquet(*_roots(wanted, named))
        listed = _by_directory(unquote(file) for file in frame.inputFiles())
        differing = _differing(wanted, listed) - named
        if not differing:
            return frame
        named |= differing
    return reader.parquet(*paths)


def _roots(wanted: Mapping[str, Collection[str]], named: Collection[str]) -> list[str]:
    """The paths that Spark is given: directories, and the files of those whose files are named."""
    return [
        root
        for directory, files in wanted.items()
        for root in (sorted(files) if directory in named else (directory,))
    ]


def _differing(
    wanted: Mapping[str, Collection[str]], listed: Mapping[str, Collection[str]]
) -> set[str]:
    """The directories in which, or below which, Spark has listed other files than the wanted ones."""
    lacking = {directory for directory, files in wanted.items() if files != listed.get(directory)}
    strange = listed.keys() - wanted.keys()
    above = {place for place in wanted if any(_is_below(other, place) for other in strange)}
    return lacking | above


def _by_directory(paths: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        found[path.rpartition("/")[0]].add(path)
    return dict(found)


def _is_below(place: str, directory: str) -> bool:
    return place.startswith(f"{directory}/")

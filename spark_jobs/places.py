"""Where recordings are and results go: a directory here, or a URL of a file system that Hadoop knows.

``s3://`` is what recorders write and Hadoop calls ``s3a://``; both are accepted, with the recorder's
``endpoint_override``, ``scheme`` and ``region`` behind a question mark. ``fsspec+webhdfs://`` is the
recorder's spelling of ``webhdfs://``. Whether a file system answers shows when it is asked (stores.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from spark_jobs.refusals import RefusedInput

LENGTH_MAX = 2_048
_AS_HADOOP_SAYS = {"s3": "s3a"}
_OF_FSSPEC = "fsspec+"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PATTERN = re.compile(r"[]\[{}*?\\]")
_OPTIONS = ("endpoint_override", "scheme", "region")


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A directory or a file.

    Args:
        url: as Hadoop spells it; without a scheme it is a path of this host.
        options: of the store's client, as a recorder's URL gives them.
    """

    url: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    def __truediv__(self, name: str) -> StorePlace:
        return StorePlace(f"{self.url.rstrip('/')}/{name}", self.options)

    def __str__(self) -> str:
        return self.url

    @property
    def scheme(self) -> str:
        """Of its file system; empty is this host."""
        return self.url.partition("://")[0] if "://" in self.url else ""

    @property
    def bucket(self) -> str:
        """The first part behind the scheme, which is a host in some file systems."""
        return self.url.partition("://")[2].partition("/")[0]

    @property
    def is_here(self) -> bool:
        """Whether it is a path of this host."""
        return not self.scheme

    @property
    def path(self) -> Path:
        """Of a place of this host."""
        assert self.is_here
        return Path(self.url)

    @property
    def for_spark(self) -> str:
        """As Spark takes it, whatever its own default file system is."""
        return f"file://{self.path.absolute()}" if self.is_here else self.url

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rstrip("/").rpartition("/")[2]


def place_of(text: str | os.PathLike[str] | StorePlace) -> StorePlace:
    """Read what a command was given.

    Raises:
        RefusedInput: it names no place.
    """
    if isinstance(text, StorePlace):
        return text
    text = os.fspath(text)
    if not text or len(text) > LENGTH_MAX or _CONTROL.search(text):
        raise RefusedInput(
            f"{text[:60]!r}: no place; a directory or URL has 1 to {LENGTH_MAX:,} characters,"
            " none of them a control character"
        )
    place = _place_of(text)
    if pattern := _PATTERN.search(place.for_spark):
        raise RefusedInput(
            f"{place.for_spark}: Spark takes {pattern[0]} for a pattern; name a place without it"
        )
    return place


def _place_of(text: str) -> StorePlace:
    if text.startswith("file:"):
        return _of_file_url(text)
    if "://" not in text:
        return StorePlace(text)
    return _of_url(text)


def _of_file_url(text: str) -> StorePlace:
    path = text.removeprefix("file:")
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path.startswith("/"):
        raise RefusedInput(
            f"{text}: a file: URL has an absolute path and no host, as in file:///var/x"
        )
    return StorePlace(_decoded(text, path))


def _of_url(text: str) -> StorePlace:
    try:
        parts = urlsplit(text.removeprefix(_OF_FSSPEC))
        user, password, _ = parts.username, parts.password, parts.port
    except ValueError as error:
        raise RefusedInput(f"{text}: not a URL: {error}") from error
    scheme = _AS_HADOOP_SAYS.get(parts.scheme, parts.scheme)
    if not _SCHEME.fullmatch(scheme):
        raise RefusedInput(f"{text}: not a URL: it does not begin with the name of a file system")
    if password is not None or (user is not None and scheme == "s3a"):
        raise RefusedInput(
            f"{scheme}://...{parts.path}: credentials do not belong into a URL, which logs show; set"
            " them where Hadoop looks for them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if parts.fragment or (not parts.netloc and scheme != "hdfs"):
        raise RefusedInput(
            f"{text}: not a URL as in s3://bucket/directory or hdfs://host:8020/directory"
        )
    # The recorder gives fsspec its path as it is.
    path = parts.path if text.startswith(_OF_FSSPEC) else _decoded(text, parts.path)
    if ".." in path.split("/"):
        raise RefusedInput(f"{text}: .. has no meaning in a URL")
    options = _options(text, scheme, parts.query)
    return StorePlace(f"{scheme}://{parts.netloc}{path.rstrip('/')}", options)


def _decoded(text: str, path: str) -> str:
    """A path without the escapes of a URL, as the recorder reads it."""
    path = unquote(path)
    if _CONTROL.search(path):
        raise RefusedInput(f"{text}: a control character has no place in a path")
    return path


def _options(text: str, scheme: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options) - set(_OPTIONS if scheme == "s3a" else ()))
    if unknown:
        known = f" but {', '.join(_OPTIONS)}" if scheme == "s3a" else ""
        raise RefusedInput(
            f"{text}: option {unknown[0]} of the URL is not known; there is none{known}"
        )
    if options.get("scheme", "https") not in ("http", "https"):
        raise RefusedInput(f"{text}: scheme is http or https")
    return options

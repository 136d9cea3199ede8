"""The text of a broker's metrics, read so that no name in it makes up a line.

Clients choose names of topics, subscriptions and consumers, and a broker writes them as they are, line
feeds, braces and backslashes too; it escapes their quotes alone (tried on 4.2.4). Labels count only where
they end with a quote that is not escaped: no name can make up a line, or end one early. The broker writes
the namespace, which has no such characters, before all of these names.

A name with a line feed, or one at the end that ends with a backslash, makes its own line unreadable. Such
a line is *cut*: it counts nothing, and `cut_namespaces` says of which namespace it is. So is one that is
longer than `LONGEST_LINE`, of which `whole_lines` keeps the beginning.

A line is searched by the line feed before it: a pattern that begins with ``^`` takes six times as long,
1.4 s for 45 MB.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Final

LONGEST_LINE: Final = 64 * 1024
"""Bytes of a line that arrive before it counts as cut; clients can make one of any length."""

_BEGINNING: Final = 4 * 1024
"""Bytes of such a line that are kept; the namespace is in them."""

_LABELS: Final = rb'\{([^\n]*[^\\\n]")\} '
_NUMBER: Final = rb"([0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE]\+?[0-9]{1,2})?)(?=[ \n])"
"""As a broker writes one. Of more digits it could be infinite, and with two points it is none."""

_CUT: Final = rb'\{[^\n]*?namespace="([^"\n]+)"([^\n]*)'
_NOT_PARTITIONED: Final = "-1"
_OF_CONSUMER: Final = b'consumer_name="'


async def whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of an answer as they arrive, many at a time, without the last line feed.

    The answer is never held as a whole, nor is a line of any length.
    """
    tail, is_cut = b"", False
    async for chunk in chunks:
        lines, feed, tail = (tail + chunk).rpartition(b"\n")
        if is_cut:
            if not feed:
                tail = b""
                continue
            _, _, lines = lines.partition(b"\n")
        is_cut = len(tail) > LONGEST_LINE
        if is_cut:
            lines, tail = b"%b\n%b" % (lines, tail[:_BEGINNING]), b""
        yield lines
    yield tail


class Lines:
    """The lines of some metrics.

    Args:
        names: of the metrics.
    """

    def __init__(self, *names: str) -> None:
        starts = rb"\n(" + b"|".join(name.encode() for name in names) + rb")"
        self._prefixes = tuple(b"\n%b{" % name.encode() for name in names)
        self._line = re.compile(starts + _LABELS + _NUMBER)
        self._cut = re.compile(starts + _CUT)

    def find(self, text: bytes) -> list[tuple[bytes, bytes, bytes]]:
        """Return name, labels and value of each line; each has a line feed before it."""
        return self._line.findall(text)

    def cut_namespaces(self, text: bytes, readable: int) -> Iterator[str]:
        """Yield the namespaces of lines that are cut.

        Args:
            text: as for `find`.
            readable: how many lines `find` found there.
        """
        if sum(map(text.count, self._prefixes)) == readable:
            return
        for found in self._cut.finditer(text):
            if _OF_CONSUMER not in found[3] and self._line.match(text, found.start()) is None:
                yield found[2].decode(errors="replace")


def labels_of(text: bytes, names: re.Pattern[bytes]) -> dict[str, str]:
    """Return the labels of a line, those with the names of a pattern from `label_pattern`."""
    return {key.decode(): found.decode(errors="replace") for key, found in names.findall(text)}


def topic_in(labels: Mapping[str, str]) -> str:
    """Return the topic of a line.

    With splitTopicAndPartitionIndexLabel the name there is that of all partitions.
    """
    topic, partition = labels.get("topic", ""), labels.get("partition", _NOT_PARTITIONED)
    return f"{topic}-partition-{partition}" if topic and partition != _NOT_PARTITIONED else topic


def label_pattern(names: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern of the labels with these names.

    A quote in a name is escaped, so that no name holds the ``="`` of a label; the text of a label is cut
    short at its own first quote.
    """
    return re.compile(rb"(" + "|".join(names).encode() + rb')="([^"]*)"')

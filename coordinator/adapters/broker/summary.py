"""Read a broker's summary of all its topics, piece by piece.

``/broker-stats/topics`` of a broker with 10,000 topics is some 15 MB of JSON. Parsed as a whole it would
hold up the coordinator's loop for a fifth of a second, with 50,000 for long enough to stop the gate, and
a thread does not help, since the parser does not release the interpreter. So this module walks the four
levels around the topics (namespace, bundle, domain, topic) by hand, and parses one topic at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final

from coordinator.backlog.rules.model import TopicSummary

NAMES_SHOWN: Final = 20
"""Producers of a topic that are named; there may be thousands."""

_LEVELS: Final = 4
_decode = json.JSONDecoder().raw_decode
_skip_space = re.compile(r"[ \t\r\n]*").match

Path = tuple[str, ...]


def each_topic(text: str) -> Iterator[TopicSummary]:
    """Yield the persistent topics in a broker's answer, one at a time.

    Raises:
        ValueError: the answer has another form.
    """
    try:
        for (_, _, domain, topic), value in _walk(text, 0, ()):
            if domain == "persistent":
                yield _summary(topic, value)
    except (
        IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise ValueError(f"no statistics of topics: {type(error).__name__} {error}") from error


def _walk(text: str, pos: int, path: Path) -> Generator[tuple[Path, Any], None, int]:
    pos = _expect(text, pos, "{")
    while text[pos] != "}":
        key, pos = _decode(text, pos)
        pos = _expect(text, pos, ":")
        if len(path) + 1 == _LEVELS:
            value, pos = _decode(text, pos)
            yield (*path, key), value
        else:
            pos = yield from _walk(text, pos, (*path, key))
        pos = _space(text, pos)
        if text[pos] != "}":
            pos = _expect(text, pos, ",")
    return pos + 1


def _expect(text: str, pos: int, character: str) -> int:
    pos = _space(text, pos)
    if text[pos] != character:
        raise ValueError(f"{character!r} expected at {pos}, found {text[pos]!r}")
    return _space(text, pos + 1)


def _space(text: str, pos: int) -> int:
    found = _skip_space(text, pos)
    assert found is not None, "the pattern matches the empty text"
    return found.end()


def _summary(topic: str, stats: Mapping[str, Any]) -> TopicSummary:
    subscriptions = stats["subscriptions"]
    publishers = stats.get("publishers", ())
    return TopicSummary(
        topic=topic,
        size_bytes=max(0, int(stats["backlogSize"])),
        storage_bytes=int(stats["storageSize"]),
        published_bytes=int(stats["bytesInCount"]),
        backlogs={name: max(0, int(s["msgBacklog"])) for name, s in subscriptions.items()},
        producers=tuple(str(p.get("producerName", "")) for p in publishers[:NAMES_SHOWN]),
        producer_count=len(publishers),
        consumers={name: len(s.get("consumers", ())) for name, s in subscriptions.items()},
    )

"""The addresses that a broker names in its frames, and the frames with others in their place.

The fields are those of PulsarApi.proto of 4.0.7, 4.2.4 and 5.0.0-M1. A broker of 5.0.0-M1 writes its
internal addresses into SCALABLE_TOPIC_UPDATE (DagWatchSession names no listener).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from coordinator.gate.protocol.frames import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    LOOKUP_RESPONSE,
    SCALABLE_TOPIC_UPDATE,
    TOPIC_MIGRATED,
    WATCH_TC_ASSIGNMENTS_UPDATE,
    each_span,
)
from coordinator.gate.protocol.own_frames import bytes_field

_LENGTH_DELIMITED: Final = 2


@dataclass(frozen=True, slots=True)
class Place:
    """The fields of a message that hold addresses.

    Args:
        urls: the numbers of fields that are addresses.
        nested: the same of messages in it, by number.
        required: the numbers of those without which the message is left out.
    """

    urls: frozenset[int] = frozenset()
    nested: Mapping[int, Place] = field(default_factory=dict)
    required: frozenset[int] = frozenset()


_SEGMENT_BROKER: Final = Place(frozenset({2, 3}), required=frozenset({2}))
_TC_ASSIGNMENT: Final = Place(frozenset({2, 3}))

PLACES: Final[Mapping[int, Place]] = {
    LOOKUP_RESPONSE: Place(frozenset({1, 2})),
    CLOSE_PRODUCER: Place(frozenset({3, 4})),
    CLOSE_CONSUMER: Place(frozenset({3, 4})),
    TOPIC_MIGRATED: Place(frozenset({3, 4})),
    SCALABLE_TOPIC_UPDATE: Place(nested={2: Place(frozenset({4, 5}), {3: _SEGMENT_BROKER})}),
    WATCH_TC_ASSIGNMENTS_UPDATE: Place(nested={2: Place(nested={2: _TC_ASSIGNMENT})}),
}
"""The addresses of each command of a broker that has any."""


@dataclass(slots=True)
class Rewriting:
    """One command, written anew with the addresses that a client may be told.

    Args:
        tell: given an address, returns the one to tell instead; empty to leave it out.
    """

    tell: Callable[[str], str]
    #: How many addresses were written.
    told: int = 0

    def message(self, data: bytes, start: int, end: int, place: Place) -> bytes | None:
        """Return the message between two positions, with other addresses; all else stays as it is.

        None is one that has lost an address that it requires.

        Raises:
            MalformedFrame: a field runs past the end of its message, or is of no known wire type.
        """
        written = bytearray()
        for tag, begin, value, after in each_span(data, start, end):
            number = tag >> 3
            if tag & 7 != _LENGTH_DELIMITED or value == after:
                written += data[begin:after]
            elif number in place.urls:
                told = self._told(data[value:after])
                if told:
                    written += bytes_field(number, told)
                elif number in place.required:
                    return None
            elif number in place.nested:
                inner = self.message(data, value, after, place.nested[number])
                if inner is not None:
                    written += bytes_field(number, inner)
            else:
                written += data[begin:after]
        return bytes(written)

    def _told(self, url: bytes) -> bytes:
        told = self.tell(url.decode(errors="replace")).encode()
        self.told += bool(told)
        return told

"""Frames that the coordinator and the process of Pulsar's client write on a pair of sockets.

A frame is four bytes of its head's length, four bytes of its payload's, the head, and the payload. The
head is JSON: the kind and the fields. It is no pickle, since a message may have made that process
anything: what the coordinator does not understand ends the process, and nothing else.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_LENGTHS: Final = struct.Struct("!II")

LENGTHS_BYTES: Final = _LENGTHS.size
"""A frame begins with these bytes, from which `sizes` tells how many follow."""

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""Longest frame that is read; more than a message may have (`outbox.WAITING_BYTES_MAX`)."""

HEAD_BYTES_MAX: Final = 256 * 1024
"""Longest head: others choose names and properties, and a large JSON would hold up the coordinator."""


class NotUnderstoodError(Exception):
    """The bytes are no frame."""


class ClientSettings(NamedTuple):
    """The first frame, to the process: the client that it shall be.

    Attributes:
        service_url: ``pulsar://`` or ``pulsar+ssl://`` address of a broker.
        topics: full names of the topics.
        listener_name: the brokers' advertised listener that lookups answer with.
        token: authenticates to the broker; None sends none.
        tls_trust_certs_file: trusted authorities for ``pulsar+ssl``; None is certifi's list.
        compression: of payloads: ``none`` or ``lz4``.
    """

    service_url: str
    topics: list[str]
    listener_name: str | None = None
    token: str | None = None
    tls_trust_certs_file: str | None = None
    compression: str = "none"


class Publish(NamedTuple):
    """To the process: send a message on every topic; each is answered by a `SendOutcome`."""

    number: int
    properties: Mapping[str, str]
    payload: bytes


class TopicState(NamedTuple):
    """From the process, twice a second: whether a topic is connected, and why it is not.

    Attributes:
        topic: its place among those of the settings.
        is_connected: whether messages can be sent and received.
        reason: why the last attempt to connect failed; empty if it did not.
    """

    topic: int
    is_connected: bool
    reason: str


class SendOutcome(NamedTuple):
    """From the process: whether a broker took a message; once for each topic."""

    number: int
    is_taken: bool


class Received(NamedTuple):
    """From the process: a message that arrived.

    Attributes:
        producer: name of its producer.
        published_ms: publish time, in milliseconds of the epoch, by the producer's clock.
        properties: its properties.
        payload: its content.
    """

    producer: str
    published_ms: int
    properties: Mapping[str, str]
    payload: bytes


class Overflowed(NamedTuple):
    """From the process: messages that arrived and were dropped, as there was no room."""

    dropped: int


Frame = ClientSettings | Publish | TopicState | SendOutcome | Received | Overflowed

_STRING_OR_NONE: Final = (str, type(None))
_KINDS: Final[Mapping[str, tuple[type[Any], tuple[Any, ...]]]] = {
    kind.__name__: (kind, types)
    for kind, types in (
        (ClientSettings, (str, list, *3 * [_STRING_OR_NONE], str)),
        (Publish, (int, dict)),
        (TopicState, (int, bool, str)),
        (SendOutcome, (int, bool)),
        (Received, (str, int, dict)),
        (Overflowed, (int,)),
    )
}
"""By name: the kind, and the types of the fields in its head. What lists and objects hold are texts."""


def encode(frame: Frame) -> bytes:
    """Return a frame's bytes."""
    fields: tuple[Any, ...] = frame
    payload = b""
    if isinstance(frame, Publish | Received):
        *fields, payload = frame  # type: ignore[assignment]
    head = json.dumps([type(frame).__name__, *fields]).encode()
    return _LENGTHS.pack(len(head), len(payload)) + head + payload


def sizes(lengths: bytes) -> tuple[int, int]:
    """Return the lengths of a frame's head and payload from its first `LENGTHS_BYTES`.

    Raises:
        NotUnderstoodError: it is too long.
    """
    head, payload = _LENGTHS.unpack(lengths)
    if head > HEAD_BYTES_MAX or head + payload > FRAME_BYTES_MAX:
        raise NotUnderstoodError(f"a frame of {head} and {payload} bytes")
    return head, payload


def decode(head: bytes, payload: bytes) -> Frame:
    """Return a frame.

    Raises:
        NotUnderstoodError: the bytes are none.
    """
    try:
        name, *fields = json.loads(head)
        # Fails for half a character, which no answer of the API could hold.
        json.dumps(fields, ensure_ascii=False).encode()
        kind, types = _KINDS[name]
        understood = len(fields) == len(types) and all(map(_is_of, fields, types))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotUnderstoodError(f"a head that is none: {head[:100]!r}") from error
    if not understood:
        raise NotUnderstoodError(f"fields of {name} that are none: {head[:100]!r}")
    made: Frame = kind(*fields, payload) if kind in (Publish, Received) else kind(*fields)
    return made


def _is_of(field: Any, kind: Any) -> bool:
    within = field.values() if isinstance(field, dict) else field if isinstance(field, list) else ()
    return isinstance(field, kind) and all(isinstance(each, str) for each in within)

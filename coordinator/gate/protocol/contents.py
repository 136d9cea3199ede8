"""The contents that a client's command has a broker store beside messages: schemas, properties, markers.

A broker keeps a schema, and the properties of a producer or a subscription, once: a command that brings
what it has stores nothing. So these have a *key*, by which the gate knows them again. A transaction ends
with a marker in every partition that was added to it, and with one in the log of every subscription: each
time anew, without a key. Coordinators have brokers write a marker by END_TXN_ON_PARTITION and
END_TXN_ON_SUBSCRIPTION; a broker without authorization obeys any client that sends these.

Read are commands in canonical form alone (frames.py); the handlers that come after this refuse the rest.
So no more fields are read here than a command may have. Where they look at no names, a topic's is bounded
here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from coordinator.gate.protocol.commands import NAME_SIZE_MAX
from coordinator.gate.protocol.frames import (
    ADD_PARTITION_TO_TXN,
    ADD_SUBSCRIPTION_TO_TXN,
    END_TXN_ON_PARTITION,
    END_TXN_ON_SUBSCRIPTION,
    GET_OR_CREATE_SCHEMA,
    PRODUCER,
    SUBSCRIBE,
    FieldBudget,
    FrameFault,
    MalformedFrame,
    each_field,
)

MARKER_BYTES: Final = 64
"""A marker's entry, as brokers write it: its metadata and the ids of its transaction."""

_IN_SUBSCRIPTIONS: Final = (ADD_SUBSCRIPTION_TO_TXN, END_TXN_ON_SUBSCRIPTION)
_MARKING: Final = (ADD_PARTITION_TO_TXN, END_TXN_ON_PARTITION, *_IN_SUBSCRIPTIONS)

STORING: Final = (PRODUCER, SUBSCRIBE, GET_OR_CREATE_SCHEMA, *_MARKING)
"""The commands that have a broker store something."""

_REQUEST_ID: Final = {
    PRODUCER: 3,
    SUBSCRIBE: 5,
    GET_OR_CREATE_SCHEMA: 1,
    **dict.fromkeys(_MARKING, 1),
}
_TOPIC: Final = {PRODUCER: 1, SUBSCRIBE: 1, GET_OR_CREATE_SCHEMA: 2}
_SCHEMA: Final = {PRODUCER: 7, SUBSCRIBE: 12, GET_OR_CREATE_SCHEMA: 3}
_PROPERTIES: Final = {PRODUCER: (6,), SUBSCRIBE: (10, 18)}
_SUBSCRIPTION: Final = 2
_IN_TRANSACTION: Final = 4
_SCHEMA_DATA, _SCHEMA_PROPERTIES = 3, 5


class Content(NamedTuple):
    """A content that a broker stores for one topic.

    Args:
        topic: the topic.
        messages: entries of the topic that hold it.
        size: in bytes.
        key: the same for the same content; empty if it is stored anew each time.
    """

    topic: str
    messages: int
    size: int
    key: bytes = b""


class Storing(NamedTuple):
    """A request, and what it has the broker store."""

    request_id: int
    contents: tuple[Content, ...]


NOTHING: Final = Storing(0, ())

_Field = tuple[int, int | bytes]


def read_storing(kind: int, data: bytes, start: int, end: int) -> Storing:
    """Read what a command has a broker store.

    Raises:
        MalformedFrame: a field runs past the end of the command, there are too many of them, or the name
            of a topic is too long.
    """
    budget = FieldBudget()
    fields = list(_each_field(data, start, end, budget))
    request_id = next((v for n, v in fields if n == _REQUEST_ID[kind] and isinstance(v, int)), 0)
    read = _markers if kind in _MARKING else _kept
    return Storing(request_id, tuple(read(kind, fields, budget)))


def _each_field(data: bytes, start: int, end: int, budget: FieldBudget) -> Iterator[_Field]:
    for each in each_field(data, start, end):
        budget.spend()
        yield each


def _markers(kind: int, fields: list[_Field], budget: FieldBudget) -> Iterator[Content]:
    values = [v for number, v in fields if number == _IN_TRANSACTION and isinstance(v, bytes)]
    if kind in _IN_SUBSCRIPTIONS:
        parts = (dict(_each_field(v, 0, len(v), budget)) for v in dict.fromkeys(values))
        values = [topic for part in parts if isinstance(topic := part.get(1), bytes)]
    else:
        values = list(dict.fromkeys(values))
    for value in values:
        yield Content(_topic(value), 1, MARKER_BYTES)


def _kept(kind: int, fields: list[_Field], budget: FieldBudget) -> Iterator[Content]:
    topic = _last(fields, _TOPIC[kind])
    # The name that a PRODUCER or a SUBSCRIBE has is judged, and answered, by its own handler.
    name = _topic(topic) if kind == GET_OR_CREATE_SCHEMA else _text(topic)
    schema = _last(fields, _SCHEMA[kind])
    if schema and _has_data(schema, budget):
        yield Content(name, 1, len(schema), _key(topic, schema))
    wanted = _PROPERTIES.get(kind, ())
    properties = [v for number, v in fields if number in wanted and isinstance(v, bytes)]
    if properties:
        owner = _last(fields, _SUBSCRIPTION) if kind == SUBSCRIBE else b""
        size = sum(map(len, properties))
        yield Content(name, 0, size, _key(topic, b"properties", owner, *properties))


def _has_data(schema: bytes, budget: FieldBudget) -> bool:
    return any(
        number in (_SCHEMA_DATA, _SCHEMA_PROPERTIES) and value
        for number, value in _each_field(schema, 0, len(schema), budget)
    )


def _last(fields: list[_Field], wanted: int) -> bytes:
    values = [value for number, value in fields if number == wanted and isinstance(value, bytes)]
    return values[-1] if values else b""


def _key(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _topic(value: bytes) -> str:
    if len(value) > NAME_SIZE_MAX:
        detail = f"a topic's name of {len(value)} bytes, at most {NAME_SIZE_MAX}"
        raise MalformedFrame(FrameFault.OUT_OF_RANGE, detail)
    return _text(value)


def _text(value: bytes) -> str:
    return value.decode(errors="replace")

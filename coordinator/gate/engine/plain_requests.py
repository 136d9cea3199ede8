"""Requests that concern no producer or consumer of the connection: they pass, and their ids are kept.

An answer names its request by the id. So the gate must know which ids are in use, also those of requests
that it has nothing to do with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.gate.protocol import commands, schema
from coordinator.gate.protocol.frames import (
    ADD_PARTITION_TO_TXN,
    ADD_SUBSCRIPTION_TO_TXN,
    CONSUMER_STATS,
    END_TXN,
    END_TXN_ON_PARTITION,
    END_TXN_ON_SUBSCRIPTION,
    GET_LAST_MESSAGE_ID,
    GET_OR_CREATE_SCHEMA,
    GET_SCHEMA,
    GET_TOPICS_OF_NAMESPACE,
    NEW_TXN,
    SCALABLE_TOPIC_CLOSE,
    SCALABLE_TOPIC_LOOKUP,
    SCALABLE_TOPIC_SUBSCRIBE,
    SEEK,
    TC_CLIENT_CONNECT,
    WATCH_SCALABLE_TOPICS,
    WATCH_SCALABLE_TOPICS_CLOSE,
    WATCH_TC_ASSIGNMENTS,
    WATCH_TC_ASSIGNMENTS_CLOSE,
    WATCH_TOPIC_LIST,
    WATCH_TOPIC_LIST_CLOSE,
    read_message,
)
from coordinator.gate.protocol.stream import FrameVerdict, Handler

_WATCHES: Final[Mapping[int, schema.Message]] = {
    SCALABLE_TOPIC_LOOKUP: schema.SCALABLE_TOPIC_LOOKUP,
    SCALABLE_TOPIC_CLOSE: schema.WATCH,
    WATCH_SCALABLE_TOPICS: schema.WATCH_SCALABLE_TOPICS,
    WATCH_SCALABLE_TOPICS_CLOSE: schema.WATCH,
    WATCH_TC_ASSIGNMENTS: schema.WATCH,
    WATCH_TC_ASSIGNMENTS_CLOSE: schema.WATCH,
}
"""Commands that concern no participant and have no request id: watches of Pulsar 5."""

_REQUESTS: Final[Mapping[int, tuple[schema.Message, int]]] = {
    CONSUMER_STATS: (schema.CONSUMER_STATS, 1),
    SEEK: (schema.SEEK, 2),
    GET_LAST_MESSAGE_ID: (schema.GET_LAST_MESSAGE_ID, 2),
    GET_OR_CREATE_SCHEMA: (schema.GET_OR_CREATE_SCHEMA, 1),
    NEW_TXN: (schema.NEW_TXN, 1),
    ADD_PARTITION_TO_TXN: (schema.ADD_PARTITION_TO_TXN, 1),
    ADD_SUBSCRIPTION_TO_TXN: (schema.ADD_SUBSCRIPTION_TO_TXN, 1),
    END_TXN: (schema.END_TXN, 1),
    END_TXN_ON_PARTITION: (schema.END_TXN_ON_PARTITION, 1),
    END_TXN_ON_SUBSCRIPTION: (schema.END_TXN_ON_SUBSCRIPTION, 1),
    TC_CLIENT_CONNECT: (schema.TC_CLIENT_CONNECT, 1),
    WATCH_TOPIC_LIST: (schema.WATCH_TOPIC_LIST, 1),
    WATCH_TOPIC_LIST_CLOSE: (schema.WATCH_TOPIC_LIST_CLOSE, 1),
    SCALABLE_TOPIC_SUBSCRIBE: (schema.SCALABLE_TOPIC_SUBSCRIBE, 1),
}
"""Requests that change no participant: their message, and the field of the request id."""

_LOOKUPS: Final[Mapping[int, tuple[schema.Message, int]]] = {
    GET_TOPICS_OF_NAMESPACE: (schema.GET_TOPICS_OF_NAMESPACE, 1),
    GET_SCHEMA: (schema.GET_SCHEMA, 1),
}
"""The same for requests of the lookup service that an ERROR may answer."""


def handlers(ask: Callable[[int], None]) -> dict[int, Handler]:
    """Return the handlers by command type; the ids of requests are told to a function."""
    watches = {kind: _reading(message) for kind, message in _WATCHES.items()}
    return watches | {kind: _asking(ask, *known) for kind, known in _REQUESTS.items()}


def lookup_handlers(look_up: Callable[[int], None]) -> dict[int, Handler]:
    """Return the same for requests of the lookup service."""
    return {kind: _asking(look_up, *known) for kind, known in _LOOKUPS.items()}


def _asking(ask: Callable[[int], None], message: schema.Message, number: int) -> Handler:
    """Return a handler that keeps the id of a request about no participant."""

    def handle(data: bytes, _start: int, body: int, end: int, _frame_end: int) -> FrameVerdict:
        ask(commands.number_of(read_message(data, body, end, message), number))
        return FrameVerdict.PASSES

    return handle


def _reading(message: schema.Message) -> Handler:
    """Return a handler that lets a command pass in canonical form."""

    def handle(data: bytes, _start: int, body: int, end: int, _frame_end: int) -> FrameVerdict:
        read_message(data, body, end, message)
        return FrameVerdict.PASSES

    return handle

"""The messages of PulsarApi.proto that a client sends, as Pulsar's decoder reads them.

LightProto, the broker's decoder, does not check that a field ends where its message ends: a nested
message with a string that claims to be longer than it is swallows the bytes that follow, and reading goes
on inside the next value. A reader that treats nested messages as opaque bytes can therefore be shown
another topic than the broker reads. So the gate checks every level, and must know which fields are
messages.

A field that is not listed here belongs to a later release: a number is skipped; bytes are refused
(frames.py), because they may be such a message.

In metadata, and in the messages nested in it, required fields must be there: the broker may store a
message without reading all of them, and each consumer would fail at it. A message id without its two
numbers would cost the broker the reading of all that came before it, and then the connection. The broker
reads commands itself, so otherwise only the fields that the gate needs have to be there (commands.py).

Source: PulsarApi.proto of 4.0.7, 4.2.4 and 5.0.0-M1, and the decoders generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple


class Scalar(Enum):
    """The encoding and the range of a value."""

    UINT64 = "uint64"
    INT64 = "int64"
    UINT32 = "uint32"
    INT32 = "int32"
    BOOL = "bool"
    TEXT = "string"
    BYTES = "bytes"
    ANY = "what differs between releases"


class Field(NamedTuple):
    """One field of a message.

    Args:
        kind: a scalar, or the message that is nested here.
        repeated: whether it may come more than once.
        packed: whether several values may come as bytes in one.
    """

    kind: Scalar | Message
    repeated: bool = False
    packed: bool = False


class Message(dict[int, Field]):
    """The fields of a message, by number.

    Args:
        fields: the fields, by number.
        required: the numbers of the fields that must be there.
    """

    __slots__ = ("required",)

    def __init__(self, fields: Mapping[int, Field], required: Iterable[int] = ()) -> None:
        super().__init__(fields)
        self.required = frozenset(required)


def _message(
    fields: Mapping[int, Field | Scalar | Message], required: Iterable[int] = ()
) -> Message:
    return Message(
        {n: field if isinstance(field, Field) else Field(field) for n, field in fields.items()},
        required,
    )


def _many(kind: Scalar | Message) -> Field:
    return Field(kind, repeated=True)


_U64, _I64, _U32, _I32 = Scalar.UINT64, Scalar.INT64, Scalar.UINT32, Scalar.INT32
_BOOL, _TEXT, _BYTES = Scalar.BOOL, Scalar.TEXT, Scalar.BYTES
_INT64S: Final = Field(_I64, repeated=True, packed=True)

# Parts of commands.

_KEY_VALUE: Final = _message({1: _TEXT, 2: _TEXT}, required=(1, 2))
_KEY_LONG_VALUE: Final = _message({1: _TEXT, 2: _U64})
_MESSAGE_ID: Final = _message(
    {1: _U64, 2: _U64, 3: _I32, 4: _I32, 5: _INT64S, 6: _I32}, required=(1, 2)
)
_MESSAGE_ID[7] = Field(_MESSAGE_ID)
_SCHEMA: Final = _message({1: _TEXT, 3: _BYTES, 4: _I32, 5: _many(_KEY_VALUE)})
_KEY_SHARED: Final = _message({1: _I32, 3: _many(_message({1: _I32, 2: _I32})), 4: _BOOL})
AUTH_DATA: Final = _message({1: _TEXT, 2: _BYTES})
_SUBSCRIPTION: Final = _message({1: _TEXT, 2: _TEXT})
_ENCRYPTION_KEYS: Final = _message({1: _TEXT, 2: _BYTES, 3: _many(_KEY_VALUE)}, required=(1, 2))

FEATURE_FLAGS: Final = _message(dict.fromkeys(range(1, 10), _BOOL))

# Commands.

CONNECT: Final = _message(
    {
        1: _TEXT, 2: _I32, 3: _BYTES, 4: _I32, 5: _TEXT, 6: _TEXT, 7: _TEXT, 8: _TEXT, 9: _TEXT,
        10: FEATURE_FLAGS, 11: _TEXT,
    }
)  # fmt: skip
SUBSCRIBE: Final = _message(
    {
        1: _TEXT, 2: _TEXT, 3: _I32, 4: _U64, 5: _U64, 6: _TEXT, 7: _I32, 8: _BOOL, 9: _MESSAGE_ID,
        10: _many(_KEY_VALUE), 11: _BOOL, 12: _SCHEMA, 13: _I32, 14: _BOOL, 15: _BOOL, 16: _U64,
        17: _KEY_SHARED, 18: _many(_KEY_VALUE), 19: _U64,
    }
)  # fmt: skip
PRODUCER: Final = _message(
    {
        1: _TEXT, 2: _U64, 3: _U64, 4: _TEXT, 5: _BOOL, 6: _many(_KEY_VALUE), 7: _SCHEMA, 8: _U64,
        9: _BOOL, 10: _I32, 11: _U64, 12: _BOOL, 13: _TEXT,
    }
)  # fmt: skip
SEND: Final = _message(
    {
        1: _U64, 2: _U64, 3: _I32, 4: _U64, 5: _U64, 6: _U64, 7: _BOOL, 8: _BOOL, 9: _MESSAGE_ID,
    }
)  # fmt: skip
ACK: Final = _message(
    {
        1: _U64, 2: _I32, 3: _many(_MESSAGE_ID), 4: _I32, 5: _many(_KEY_LONG_VALUE), 6: _U64,
        7: _U64, 8: _U64,
    }
)  # fmt: skip
FLOW: Final = _message({1: _U64, 2: _U32})
SIGN_OF_LIFE: Final = _message({})
"""PING and PONG."""
UNSUBSCRIBE: Final = _message({1: _U64, 2: _U64, 3: _BOOL})
CLOSE: Final = _message({1: _U64, 2: _U64, 3: _TEXT, 4: _TEXT})
REDELIVER: Final = _message({1: _U64, 2: _many(_MESSAGE_ID), 3: _U64})
PARTITIONED_METADATA: Final = _message({1: _TEXT, 2: _U64, 3: _TEXT, 4: _TEXT, 5: _TEXT, 6: _BOOL})
LOOKUP: Final = _message(
    {1: _TEXT, 2: _U64, 3: _BOOL, 4: _TEXT, 5: _TEXT, 6: _TEXT, 7: _TEXT, 8: _many(_KEY_VALUE)}
)
CONSUMER_STATS: Final = _message({1: _U64, 4: _U64})
SEEK: Final = _message({1: _U64, 2: _U64, 3: _MESSAGE_ID, 4: _U64})
GET_LAST_MESSAGE_ID: Final = _message({1: _U64, 2: _U64})
GET_TOPICS_OF_NAMESPACE: Final = _message(
    {1: _U64, 2: _TEXT, 3: _I32, 4: _TEXT, 5: _TEXT, 6: _many(_KEY_VALUE)}
)
GET_SCHEMA: Final = _message({1: _U64, 2: _TEXT, 3: _BYTES})
AUTH_RESPONSE: Final = _message({1: _TEXT, 2: AUTH_DATA, 3: _I32})
GET_OR_CREATE_SCHEMA: Final = _message({1: _U64, 2: _TEXT, 3: _SCHEMA, 4: _TEXT})
NEW_TXN: Final = _message({1: _U64, 2: _U64, 3: _U64, 4: _BOOL})
ADD_PARTITION_TO_TXN: Final = _message({1: _U64, 2: _U64, 3: _U64, 4: _many(_TEXT), 5: _BOOL})
ADD_SUBSCRIPTION_TO_TXN: Final = _message(
    {1: _U64, 2: _U64, 3: _U64, 4: _many(_SUBSCRIPTION), 5: _BOOL}
)
# Clients of 2.7 write message ids where later ones have numbers; no decision depends on these.
END_TXN: Final = _message({1: _U64, 2: _U64, 3: _U64, 4: _I32, 5: _many(Scalar.ANY)})
END_TXN_ON_PARTITION: Final = _message(
    {1: _U64, 2: _U64, 3: _U64, 4: _TEXT, 5: _I32, 6: _many(Scalar.ANY)}
)
END_TXN_ON_SUBSCRIPTION: Final = _message(
    {1: _U64, 2: _U64, 3: _U64, 4: _SUBSCRIPTION, 5: _I32, 6: _many(Scalar.ANY)}
)
TC_CLIENT_CONNECT: Final = _message({1: _U64, 2: _U64, 3: _BOOL})
WATCH_TOPIC_LIST: Final = _message({1: _U64, 2: _U64, 3: _TEXT, 4: _TEXT, 5: _TEXT})
WATCH_TOPIC_LIST_CLOSE: Final = _message({1: _U64, 2: _U64})
SCALABLE_TOPIC_LOOKUP: Final = _message({1: _U64, 2: _TEXT})
SCALABLE_TOPIC_SUBSCRIBE: Final = _message(
    {1: _U64, 2: _TEXT, 3: _TEXT, 4: _TEXT, 5: _U64, 6: _I32}
)
WATCH_SCALABLE_TOPICS: Final = _message({1: _U64, 2: _TEXT, 3: _many(_KEY_VALUE), 4: _TEXT})
WATCH: Final = _message({1: _U64})
"""The commands of Pulsar 5 that name only the watch or the session that they open or close."""

# The bytes in front of a message's content.

MESSAGE_METADATA: Final = _message(
    {
        1: _TEXT, 2: _U64, 3: _U64, 4: _many(_KEY_VALUE), 5: _TEXT, 6: _TEXT, 7: _many(_TEXT),
        8: _I32, 9: _U32, 11: _I32, 12: _U64, 13: _many(_ENCRYPTION_KEYS), 14: _TEXT, 15: _BYTES,
        16: _BYTES, 17: _BOOL, 18: _BYTES, 19: _I64, 20: _I32, 22: _U64, 23: _U64, 24: _U64, 25: _BOOL,
        26: _TEXT, 27: _I32, 28: _I32, 29: _I32, 30: _BOOL, 31: Field(_I32, repeated=True, packed=True),
        32: _BYTES,
    },
    required=(1, 2, 3),
)  # fmt: skip

"""The fields of commands that the gate needs for its decisions.

Each reader of a client's command takes the bounds of its sub-message, which must be in canonical form
(frames.py), and returns plain numbers and strings. Readers of a broker's answers read the first level
only. SEND, SEND_RECEIPT and MESSAGE pass hundreds of thousands of times a second; where the helper of
runs.py was built, most of them never come here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coordinator.gate.protocol import schema
from coordinator.gate.protocol.frames import (
    Fields,
    FrameFault,
    MalformedFrame,
    each_field,
    read_fields,
    read_message,
    read_varint,
)
from coordinator.gate.protocol.own_frames import INVALID_TOPIC_NAME
from coordinator.gate.protocol.refusals import RefusalReason, RequestRefused

NAME_SIZE_MAX: Final = 1024
"""The longest name of a topic, subscription, producer or consumer that the gate keeps, in bytes."""

PERMITS_MAX: Final = 0x7FFFFFFF
"""The most permits that one FLOW may give: the broker reads them as an int32."""

_INT32_MAX: Final = 0x7FFFFFFF
_FIRST_ID: Final = 0x08
_ACK_SET: Final = 4
_SUB_TYPES: Final = 4
"""Exclusive, Shared, Failover and Key_Shared."""


class ProducerCommand(NamedTuple):
    """PRODUCER: a client opens a producer."""

    topic: str
    producer_id: int
    request_id: int
    producer_name: str


class SubscribeCommand(NamedTuple):
    """SUBSCRIBE: a client opens a consumer."""

    topic: str
    consumer_id: int
    request_id: int
    subscription: str
    kind: int
    consumer_name: str


class SendCommand(NamedTuple):
    """SEND: a client publishes.

    Args:
        producer_id: of the producer.
        sequence_id: the highest of its messages, by which clients recognize an answer.
        messages: the number that the command states, at least 1.
        is_chunk: whether it is a part of a message.
    """

    producer_id: int
    sequence_id: int
    messages: int
    is_chunk: bool


def read_connect(data: bytes, start: int, end: int) -> Fields:
    """Read CONNECT: all its known fields.

    Raises:
        MalformedFrame: it is not in canonical form.
    """
    fields = read_message(data, start, end, schema.CONNECT)
    for number in (5, 6, 7, 8, 9):
        _text(fields, number)
    return fields


def read_producer(data: bytes, start: int, end: int) -> ProducerCommand:
    """Read PRODUCER.

    Raises:
        MalformedFrame: it is not in canonical form, or a required field is missing.
        RequestRefused: a name is too long.
    """
    fields = read_message(data, start, end, schema.PRODUCER)
    request_id = number_of(fields, 3)
    for number, name in ((1, "topic"), (4, "producer_name"), (13, "initial_subscription_name")):
        _check_size(fields, number, f"PRODUCER.{name}", request_id)
    topic = _required_text(fields, 1)
    return ProducerCommand(topic, number_of(fields, 2), request_id, _text(fields, 4))


def read_subscribe(data: bytes, start: int, end: int) -> SubscribeCommand:
    """Read SUBSCRIBE.

    Raises:
        MalformedFrame: it is not in canonical form, or a required field is missing.
        RequestRefused: a name is too long.
    """
    fields = read_message(data, start, end, schema.SUBSCRIBE)
    request_id, kind = number_of(fields, 5), number_of(fields, 3)
    if kind >= _SUB_TYPES:
        raise MalformedFrame(FrameFault.OUT_OF_RANGE, f"SUBSCRIBE.subType {kind}")
    for number, name in ((1, "topic"), (2, "subscription"), (6, "consumer_name")):
        _check_size(fields, number, f"SUBSCRIBE.{name}", request_id)
    topic, subscription = _required_text(fields, 1), _required_text(fields, 2)
    consumer_id, consumer_name = number_of(fields, 4), _text(fields, 6)
    return SubscribeCommand(topic, consumer_id, request_id, subscription, kind, consumer_name)


def read_send(data: bytes, start: int, end: int) -> SendCommand:
    """Read SEND.

    Raises:
        MalformedFrame: it is not in canonical form, a required field is missing, or the number of
            messages is negative.
    """
    fields = read_message(data, start, end, schema.SEND)
    messages = fields.get(3, 1)
    assert isinstance(messages, int)
    if messages > _INT32_MAX:
        raise MalformedFrame(FrameFault.OUT_OF_RANGE, f"SEND.num_messages {messages}")
    highest = fields.get(6, 0)
    assert isinstance(highest, int)
    sequence_id = max(number_of(fields, 2), highest)
    return SendCommand(number_of(fields, 1), sequence_id, messages or 1, bool(fields.get(7)))


def read_flow(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Read consumer_id and messagePermits of FLOW.

    Raises:
        MalformedFrame: it is not in canonical form, or the permits are more than a consumer can have.
    """
    fields = read_message(data, start, end, schema.FLOW)
    permits = number_of(fields, 2)
    if permits > PERMITS_MAX:
        raise MalformedFrame(FrameFault.OUT_OF_RANGE, f"FLOW.messagePermits {permits}")
    return number_of(fields, 1), permits


def leading_id(data: bytes, start: int, end: int) -> int | None:
    """Return the id with which a client's command begins; None if it begins otherwise.

    Raises:
        MalformedFrame: the id is not in canonical form.
    """
    if start == end or data[start] != _FIRST_ID:
        return None
    return read_varint(data, start + 1)[0]


def number_of(fields: Fields, number: int) -> int:
    """Return the number in a required field.

    Raises:
        MalformedFrame: there is none.
    """
    value = fields.get(number)
    if not isinstance(value, int):
        raise MalformedFrame(FrameFault.MISSING_FIELD, f"number in field {number}")
    return value


def _check_size(fields: Fields, number: int, name: str, request_id: int) -> None:
    value = fields.get(number, b"")
    if isinstance(value, bytes) and len(value) > NAME_SIZE_MAX:
        text = f"{name} is longer than {NAME_SIZE_MAX} bytes: use a shorter one"
        raise RequestRefused(request_id, INVALID_TOPIC_NAME, text, RefusalReason.NAME_TOO_LONG)


def _required_text(fields: Fields, number: int) -> str:
    if number not in fields:
        raise MalformedFrame(FrameFault.MISSING_FIELD, f"text in field {number}")
    return _text(fields, number)


def _text(fields: Fields, number: int) -> str:
    value = fields.get(number, b"")
    assert isinstance(value, bytes)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedFrame(FrameFault.TEXT, f"field {number}") from None


# Answers of the broker.


def read_first_id(data: bytes, start: int, end: int) -> int:
    """Read field 1 of a broker's command, the id that it is about.

    True of SEND_RECEIPT, SEND_ERROR (producer_id), MESSAGE (consumer_id), CLOSE_* (either), SUCCESS,
    ERROR and PRODUCER_SUCCESS (request_id).

    Raises:
        MalformedFrame: the field is missing or broken.
    """
    if start + 1 < end and data[start] == 0x08:  # where every broker writes it
        value = data[start + 1]
        if value <= 0x7F:
            return value
        value, pos = read_varint(data, start + 1)
        if pos <= end:
            return value
    return number_of(read_fields(data, start, end), 1)


def read_number(data: bytes, start: int, end: int, number: int) -> int:
    """Read one number of a broker's command.

    Raises:
        MalformedFrame: the field is missing or broken.
    """
    return number_of(read_fields(data, start, end), number)


def read_max_message_size(data: bytes, start: int, end: int) -> int | None:
    """Read max_message_size of CONNECTED, in bytes; None when it is not told.

    Raises:
        MalformedFrame: a field is broken.
    """
    size = read_fields(data, start, end).get(3)
    return size if isinstance(size, int) and 0 < size <= _INT32_MAX else None


def read_producer_success(data: bytes, start: int, end: int) -> tuple[int, bool]:
    """Read request_id and producer_ready of PRODUCER_SUCCESS.

    Not ready means that a second answer to the same request will follow.

    Raises:
        MalformedFrame: a field is missing or broken.
    """
    fields = read_fields(data, start, end)
    return number_of(fields, 1), bool(fields.get(6, 1))


def read_delivery(data: bytes, start: int, end: int) -> tuple[int, int | None]:
    """Read consumer_id of MESSAGE, and the number of its batch's messages that ack_set leaves.

    The broker takes only those from the consumer's permits. None stands for all: there is no ack_set, as
    nearly always.

    Raises:
        MalformedFrame: the id is missing or broken.
    """
    # As brokers write it: the consumer id, the message id, and as a rule nothing else.
    if start + 3 < end and data[start] == 0x08:
        consumer_id, after = data[start + 1], start + 2
        if consumer_id > 0x7F:
            consumer_id, after = read_varint(data, start + 1)
        if after + 1 < end and data[after] == 0x12 and data[after + 1] == end - after - 2:
            return consumer_id, None
    consumer_id = number_of(read_fields(data, start, end), 1)
    left: int | None = None
    for number, value in each_field(data, start, end):
        if number == _ACK_SET and isinstance(value, int):
            left = (left or 0) + value.bit_count()
    return consumer_id, left

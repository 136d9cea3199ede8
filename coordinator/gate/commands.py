"""The fields that the gate needs of the commands that it watches.

Each reader takes the bounds of a BaseCommand (for MESSAGE those of the payload as well) and gives back
plain numbers and strings. SEND, SEND_RECEIPT and MESSAGE pass hundreds of thousands of times a second
and have readers of their own that look at each byte once; the others go through ``read_fields``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from coordinator.gate.frames import (
    CONNECT,
    CONNECTED,
    FLOW,
    MESSAGE,
    PRODUCER,
    PRODUCER_SUCCESS,
    SEND,
    SUBSCRIBE,
    Fields,
    FrameFault,
    MalformedFrame,
    each_field,
    read_fields,
    read_varint,
    skip_value,
    submessage,
)

_INT32_MAX = 0x7FFFFFFF
_BROKER_ENTRY_MAGIC = b"\x0e\x02"
_CHECKSUM_MAGIC = b"\x0e\x01"
_PUBLISH_TIME = 3 << 3
_NUM_MESSAGES_IN_BATCH = 11 << 3
_DELIVER_AT_TIME = 19 << 3
_DELIVER_AT_TAG = b"\x98\x01"
"""The same as it is written: metadata with a time of delivery has these bytes somewhere."""
_ACK_SET = 4
_size = struct.Struct(">I").unpack_from


class ConnectCommand(NamedTuple):
    """CONNECT: a client says who it is, and to which broker (host:port) a proxy should lead it."""

    proxy_target: str
    method: str
    #: Whether it speaks for somebody else, as a proxy does.
    names_original: bool
    fields: Fields


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


def read_connect(data: bytes, start: int, end: int) -> ConnectCommand:
    """Read CONNECT.

    Raises:
        MalformedFrame: a field is broken.
    """
    fields = read_fields(data, *submessage(data, start, end, CONNECT))
    target = _text(fields, 6) if 6 in fields else ""
    method = _text(fields, 5) if 5 in fields else ""
    return ConnectCommand(target, method, any(number in fields for number in (7, 8, 9)), fields)


def read_producer(data: bytes, start: int, end: int) -> ProducerCommand:
    """Read PRODUCER.

    Raises:
        MalformedFrame: a required field is missing or broken.
    """
    fields = read_fields(data, *submessage(data, start, end, PRODUCER))
    name = _text(fields, 4) if 4 in fields else ""
    return ProducerCommand(_text(fields, 1), _number(fields, 2), _number(fields, 3), name)


def read_subscribe(data: bytes, start: int, end: int) -> SubscribeCommand:
    """Read SUBSCRIBE.

    Raises:
        MalformedFrame: a required field is missing or broken.
    """
    fields = read_fields(data, *submessage(data, start, end, SUBSCRIBE))
    topic, subscription = _text(fields, 1), _text(fields, 2)
    name = _text(fields, 6) if 6 in fields else ""
    return SubscribeCommand(
        topic, _number(fields, 4), _number(fields, 5), subscription, _number(fields, 3), name
    )


def read_send(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Read producer_id and num_messages (at least 1) of SEND.

    Raises:
        MalformedFrame: a field is missing, broken, or a count that Pulsar's int32 cannot hold.
    """
    pos, end = submessage(data, start, end, SEND)
    producer_id = -1
    messages = 1
    try:
        while pos < end:
            tag = data[pos]
            value = data[pos + 1]
            pos += 2
            if tag == 0x08:
                if value > 0x7F:
                    value, pos = read_varint(data, pos - 1)
                producer_id = value
            elif tag == 0x18:
                if value > 0x7F:
                    value, pos = read_varint(data, pos - 1)
                messages = value
            elif tag == 0x10:
                # The sequence id, nearly always longer than a byte and never asked for.
                while value > 0x7F:
                    value = data[pos]
                    pos += 1
            else:
                tag, pos = read_varint(data, pos - 2)
                pos = skip_value(data, pos, tag)
    except IndexError:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, "SEND") from None
    if pos != end or producer_id < 0 or messages > _INT32_MAX:
        raise _broken_send(pos - end, producer_id, messages)
    return producer_id, messages or 1


def read_sequence(data: bytes, start: int, end: int) -> int:
    """Read sequence_id of SEND.

    Raises:
        MalformedFrame: it is missing or broken.
    """
    return _number(read_fields(data, *submessage(data, start, end, SEND)), 2)


def _broken_send(past_end: int, producer_id: int, messages: int) -> MalformedFrame:
    if past_end:
        return MalformedFrame(FrameFault.TRUNCATED_FIELD, f"SEND, {past_end} bytes past the end")
    if producer_id < 0:
        return MalformedFrame(FrameFault.MISSING_FIELD, "SEND.producer_id")
    # A number that an int32 cannot hold is a negative one.
    return MalformedFrame(FrameFault.OUT_OF_RANGE, f"SEND.num_messages {messages}")


def read_first_id(data: bytes, start: int, end: int, kind: int) -> int:
    """Read field 1 of a command, the id that it is about.

    True of SEND_RECEIPT, SEND_ERROR (producer_id), MESSAGE (consumer_id), CLOSE_* and UNSUBSCRIBE
    (either), SUCCESS, ERROR and PRODUCER_SUCCESS (request_id).

    Raises:
        MalformedFrame: the field is missing or broken.
    """
    pos, sub_end = submessage(data, start, end, kind)
    if pos + 1 < sub_end and data[pos] == 0x08:  # where everybody writes it
        value = data[pos + 1]
        if value <= 0x7F:
            return value
        value, pos = read_varint(data, pos + 1)
        if pos <= sub_end:
            return value
    return _number(read_fields(data, pos, sub_end), 1)


def read_max_message_size(data: bytes, start: int, end: int) -> int | None:
    """Read max_message_size of CONNECTED, in bytes; None when it is not told.

    Raises:
        MalformedFrame: a field is broken.
    """
    size = read_fields(data, *submessage(data, start, end, CONNECTED)).get(3)
    return size if isinstance(size, int) and 0 < size <= _INT32_MAX else None


def read_producer_success(data: bytes, start: int, end: int) -> tuple[int, bool]:
    """Read request_id and producer_ready of PRODUCER_SUCCESS.

    Not ready means that a second answer to the same request will follow.

    Raises:
        MalformedFrame: a field is missing or broken.
    """
    fields = read_fields(data, *submessage(data, start, end, PRODUCER_SUCCESS))
    return _number(fields, 1), bool(fields.get(6, 1))


def read_close(data: bytes, start: int, end: int, kind: int) -> tuple[int, int]:
    """Read the id and the request_id of CLOSE_PRODUCER, CLOSE_CONSUMER or UNSUBSCRIBE.

    Raises:
        MalformedFrame: one of them is missing or broken.
    """
    fields = read_fields(data, *submessage(data, start, end, kind))
    return _number(fields, 1), _number(fields, 2)


def read_flow(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Read consumer_id and messagePermits of FLOW.

    Raises:
        MalformedFrame: one of them is missing or broken.
    """
    fields = read_fields(data, *submessage(data, start, end, FLOW))
    return _number(fields, 1), _number(fields, 2)


def read_message(data: bytes, start: int, end: int) -> tuple[int, int | None]:
    """Read consumer_id of MESSAGE, and how many messages of its batch ack_set says are left.

    The broker takes only those from the consumer's permits. None is all: there is no ack_set, as nearly
    always.

    Raises:
        MalformedFrame: the id is missing or broken.
    """
    pos, sub_end = submessage(data, start, end, MESSAGE)
    # As brokers write it: the consumer id, the message id, and as a rule nothing else.
    if pos + 3 < sub_end and data[pos] == 0x08:
        consumer_id, after = data[pos + 1], pos + 2
        if consumer_id > 0x7F:
            consumer_id, after = read_varint(data, pos + 1)
        if after + 1 < sub_end and data[after] == 0x12 and data[after + 1] == sub_end - after - 2:
            return consumer_id, None
    consumer_id = _number(read_fields(data, pos, sub_end), 1)
    left: int | None = None
    for number, value in each_field(data, pos, sub_end):
        if number == _ACK_SET and isinstance(value, int):
            left = (left or 0) + value.bit_count()
    return consumer_id, left


def metadata_bounds(data: bytes, pos: int, frame_end: int) -> tuple[int, int]:
    """Where the metadata of a SEND or MESSAGE lies whose payload begins at ``pos``.

    While its size has not arrived, start is 0 and end the position up to which bytes are missing.

    Raises:
        MalformedFrame: the sizes in the payload's head cannot be.
    """
    arrived = len(data)
    needed = pos + 6
    if needed <= arrived and data[pos : pos + 2] == _BROKER_ENTRY_MAGIC:
        pos += 6 + int(_size(data, pos + 2)[0])
        needed = pos + 6
    if needed <= arrived and data[pos : pos + 2] == _CHECKSUM_MAGIC:
        pos += 6
        needed = pos + 4
    start = 0
    if needed <= arrived:
        start = pos + 4
        needed = start + int(_size(data, pos)[0])
    if needed > frame_end:
        raise MalformedFrame(FrameFault.METADATA_SIZE, f"{needed - frame_end} bytes past the frame")
    return start, needed


def read_messages_in_batch(data: bytes, pos: int, end: int) -> int:
    """Read num_messages_in_batch (at least 1) of the MessageMetadata between two positions.

    Raises:
        MalformedFrame: the metadata is broken.
    """
    messages = 1
    try:
        while pos < end:
            tag = data[pos]
            value = data[pos + 1]
            pos += 2
            if tag & 0x87 == 2:  # names, properties, keys; a tag of several bytes has 0x80 set
                if value > 0x7F:
                    value, pos = read_varint(data, pos - 1)
                pos += value
            elif tag == _NUM_MESSAGES_IN_BATCH:
                messages, pos = read_varint(data, pos - 1)
            elif tag & 0x87 == 0:
                while value > 0x7F:
                    value = data[pos]
                    pos += 1
            else:
                tag, pos = read_varint(data, pos - 2)
                pos = skip_value(data, pos, tag)
    except IndexError:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, "MessageMetadata") from None
    if pos != end:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, "MessageMetadata")
    if messages > _INT32_MAX:
        raise MalformedFrame(FrameFault.OUT_OF_RANGE, f"num_messages_in_batch {messages}")
    return messages or 1


def read_delivery(data: bytes, pos: int, end: int) -> tuple[int, int] | None:
    """Read deliver_at_time and publish_time (ms) of the MessageMetadata between two positions.

    None where no time of delivery is set. A batch has one for all of it or none: the metadata of its
    single messages has no such field.

    Raises:
        MalformedFrame: the metadata is broken.
    """
    if data.find(_DELIVER_AT_TAG, pos, end) < 0:
        return None
    deliver_at: int | None = None
    publish_time = 0
    while pos < end:
        tag, pos = read_varint(data, pos)
        if tag == _PUBLISH_TIME:
            publish_time, pos = read_varint(data, pos)
        elif tag == _DELIVER_AT_TIME:
            deliver_at, pos = read_varint(data, pos)
        else:
            pos = skip_value(data, pos, tag)
    if pos != end:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, "MessageMetadata")
    return None if deliver_at is None else (_signed(deliver_at), publish_time)


def _signed(value: int) -> int:
    """An int64 as protobuf writes it: a negative one as its two's complement."""
    return value - (1 << 64) if value >> 63 else value


def _number(fields: Fields, number: int) -> int:
    value = fields.get(number)
    if not isinstance(value, int):
        raise MalformedFrame(FrameFault.MISSING_FIELD, f"number in field {number}")
    return value


def _text(fields: Fields, number: int) -> str:
    value = fields.get(number)
    if not isinstance(value, bytes):
        raise MalformedFrame(FrameFault.MISSING_FIELD, f"text in field {number}")
    return value.decode(errors="replace")

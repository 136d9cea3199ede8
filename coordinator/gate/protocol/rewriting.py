"""Commands with many ids: read by protobuf's own decoder, and sent on in its serialisation.

An ACK may name a thousand messages. To read each id in Python would take the event loop some 20 ms, and a
client chooses how many there are; protobuf's decoder, in C, takes a hundredth of that. It accepts more
than the canonical form that frames.py describes, so what was read is not what goes on: fields that are
not known are dropped, and the rest is written anew. The broker thus reads exactly what the gate read.

The classes are made from schema.py when the module is loaded: one description for both readers.
"""

from __future__ import annotations

from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Decoded

from coordinator.gate.protocol import schema
from coordinator.gate.protocol.frames import ACK, REDELIVER, FrameFault, MalformedFrame
from coordinator.gate.protocol.own_frames import command_frame

LARGE: Final = 128
"""Bytes above which a command is read here; a shorter one is read in place (frames.py) and not copied."""

IDS_MAX: Final = 10_000
"""Message ids in one command; clients send a thousand at once, and the broker handles each."""

_CONSUMER_ID: Final = 1
_IDS: Final = {ACK: 3, REDELIVER: 2}
_PACKAGE: Final = "pulsar_quota.gate"

_Type = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    schema.Scalar.UINT64: _Type.TYPE_UINT64,
    schema.Scalar.INT64: _Type.TYPE_INT64,
    schema.Scalar.UINT32: _Type.TYPE_UINT32,
    schema.Scalar.INT32: _Type.TYPE_INT32,
    schema.Scalar.BOOL: _Type.TYPE_BOOL,
    schema.Scalar.TEXT: _Type.TYPE_BYTES,
    schema.Scalar.BYTES: _Type.TYPE_BYTES,
}


def rewrite(kind: int, data: bytes, start: int, end: int) -> tuple[int, int, bytes]:
    """Return the consumer id of an ACK or REDELIVER, the number of its ids, and the frame to send.

    Raises:
        MalformedFrame: it cannot be read, has no consumer id, a message id without ledger and entry, or
            more than `IDS_MAX` message ids.
    """
    command = _CLASSES[kind]()
    try:
        command.ParseFromString(data[start:end])
    except DecodeError as error:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, str(error)) from None
    if not command.HasField(_name(_CONSUMER_ID)):
        raise MalformedFrame(FrameFault.MISSING_FIELD, f"number in field {_CONSUMER_ID}")
    ids = len(getattr(command, _name(_IDS[kind])))
    if ids > IDS_MAX:
        raise MalformedFrame(FrameFault.FIELDS, f"more than {IDS_MAX} message ids")
    if not command.IsInitialized():
        raise MalformedFrame(FrameFault.MISSING_FIELD, "ledger or entry of a message id")
    command.DiscardUnknownFields()
    consumer_id: int = getattr(command, _name(_CONSUMER_ID))
    return consumer_id, max(1, ids), command_frame(kind, command.SerializeToString())


def _name(number: int) -> str:
    return f"field_{number}"


def _classes(messages: dict[int, schema.Message]) -> dict[int, type[Decoded]]:
    """Return a protobuf class for each message."""
    file = descriptor_pb2.FileDescriptorProto(name="gate_commands.proto", package=_PACKAGE)
    names: dict[int, str] = {}

    def add(message: schema.Message) -> str:
        if id(message) in names:
            return names[id(message)]
        name = names[id(message)] = f"Message{len(names)}"
        described = file.message_type.add(name=name)
        for number, field in message.items():
            label = _Type.LABEL_REQUIRED if number in message.required else _Type.LABEL_OPTIONAL
            label = _Type.LABEL_REPEATED if field.repeated else label
            added = described.field.add(name=_name(number), number=number, label=label)
            if isinstance(field.kind, schema.Message):
                added.type = _Type.TYPE_MESSAGE
                added.type_name = f".{_PACKAGE}.{add(field.kind)}"
            else:
                added.type = _SCALARS[field.kind]
        return name

    described = {kind: add(message) for kind, message in messages.items()}
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        kind: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for kind, name in described.items()
    }


_CLASSES: Final = _classes({ACK: schema.ACK, REDELIVER: schema.REDELIVER})

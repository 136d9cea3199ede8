"""Frames that two decoders could read differently: each way to write one closes the connection.

A *place* is a message inside a frame: the command's own, one nested in it, or the metadata behind a
SEND. A *spelling* is something that is written into it beside what belongs there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from coordinator.gate.protocol.frames import FrameFault, MalformedFrame
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client
from tests.gate.peer import varint

Nested = list["tuple[int, int | bytes | str | Nested]"]

LATER = 99
"""The number of a field that no release has."""

MESSAGE_ID: Nested = [(1, 5), (2, 6)]
KEY_VALUE: Nested = [(1, "key"), (2, "value")]
SCHEMA: Nested = [(1, "name"), (3, b""), (4, 2), (5, KEY_VALUE)]
METADATA: Nested = [
    (1, "name"), (2, 17), (3, 18), (4, KEY_VALUE), (13, [(1, "key"), (2, b"?"), (3, KEY_VALUE)]),
]  # fmt: skip

COMMANDS: dict[str, tuple[int, Nested]] = {
    "SUBSCRIBE": (4, [(1, TOPIC), (2, "s"), (3, 0), (4, 9), (5, 50), (9, MESSAGE_ID),
                      (10, KEY_VALUE), (12, SCHEMA), (17, [(1, 1), (3, [(1, 0), (2, 9)])])]),
    "PRODUCER": (5, [(1, TOPIC), (2, 9), (3, 50), (6, KEY_VALUE), (7, SCHEMA)]),
    "SEND": (6, [(1, 1), (2, 0), (9, [(1, 5), (2, 6), (7, MESSAGE_ID)])]),
    "ACK": (10, [(1, 1), (2, 0), (3, MESSAGE_ID), (5, [(1, "key"), (2, 7)])]),
    "FLOW": (11, [(1, 1), (2, 10)]),
    "UNSUBSCRIBE": (12, [(1, 1), (2, 50)]),
    "CLOSE_PRODUCER": (15, [(1, 1), (2, 50)]),
    "CLOSE_CONSUMER": (16, [(1, 1), (2, 50)]),
    "PING": (18, []),
    "PONG": (19, []),
    "REDELIVER": (20, [(1, 1), (2, MESSAGE_ID)]),
    "PARTITIONED_METADATA": (21, [(1, TOPIC), (2, 50)]),
    "LOOKUP": (23, [(1, TOPIC), (2, 50), (8, KEY_VALUE)]),
    "CONSUMER_STATS": (25, [(1, 50), (4, 1)]),
    "SEEK": (28, [(1, 1), (2, 50), (3, MESSAGE_ID)]),
    "GET_LAST_MESSAGE_ID": (29, [(1, 1), (2, 50)]),
    "GET_TOPICS_OF_NAMESPACE": (32, [(1, 50), (2, "tenant/ns"), (6, KEY_VALUE)]),
    "GET_SCHEMA": (34, [(1, 50), (2, TOPIC)]),
    "GET_OR_CREATE_SCHEMA": (39, [(1, 50), (2, TOPIC), (3, SCHEMA)]),
    "NEW_TXN": (50, [(1, 50), (2, 1)]),
    "ADD_PARTITION_TO_TXN": (52, [(1, 50), (2, 1), (4, TOPIC)]),
    "ADD_SUBSCRIPTION_TO_TXN": (54, [(1, 50), (2, 1), (4, [(1, TOPIC), (2, "s")])]),
    "END_TXN": (56, [(1, 50), (2, 1), (4, 1)]),
    "END_TXN_ON_PARTITION": (58, [(1, 50), (2, 1), (4, TOPIC)]),
    "END_TXN_ON_SUBSCRIPTION": (60, [(1, 50), (2, 1), (4, [(1, TOPIC), (2, "s")])]),
    "TC_CLIENT_CONNECT": (62, [(1, 50), (2, 1)]),
    "WATCH_TOPIC_LIST": (64, [(1, 50), (2, 1), (3, "tenant/ns")]),
    "WATCH_TOPIC_LIST_CLOSE": (67, [(1, 50), (2, 1)]),
    "SCALABLE_TOPIC_LOOKUP": (70, [(1, 50), (2, TOPIC)]),
    "SCALABLE_TOPIC_CLOSE": (72, [(1, 50)]),
    "SCALABLE_TOPIC_SUBSCRIBE": (73, [(1, 50), (2, TOPIC), (3, "s")]),
    "WATCH_SCALABLE_TOPICS": (76, [(1, 50), (2, "tenant/ns"), (3, KEY_VALUE), (4, "hash")]),
    "WATCH_SCALABLE_TOPICS_CLOSE": (78, [(1, 50)]),
    "WATCH_TC_ASSIGNMENTS": (79, [(1, 50)]),
    "WATCH_TC_ASSIGNMENTS_CLOSE": (81, [(1, 50)]),
}  # fmt: skip
"""Type and usual fields of what clients send once they are connected."""

METADATA_PLACES: list[tuple[int, ...]] = [(), (4,), (13,), (13, 3)]
CONNECT: Nested = [(1, "client"), (4, 19), (10, [(1, 1)])]
AUTH_RESPONSE: Nested = [(1, "client"), (2, [(1, "token"), (2, b"?")]), (3, 19)]

LATER_NUMBER = varint(LATER << 3)
LATER_BYTES = varint(LATER << 3 | 2)

ADDED = {
    "overlong tag": (b"\x98\x86\x00\x01", FrameFault.OVERLONG),
    "overlong value": (LATER_NUMBER + b"\x81\x00", FrameFault.OVERLONG),
    "overlong length": (LATER_BYTES + b"\x80\x00", FrameFault.OVERLONG),
    "tag of 33 bits": (varint(1 << 32 | LATER << 3) + b"\x01", FrameFault.OUT_OF_RANGE),
    "field number 0": (b"\x00\x01", FrameFault.OUT_OF_RANGE),
    "value of 65 bits": (LATER_NUMBER + b"\xff" * 9 + b"\x03", FrameFault.OUT_OF_RANGE),
    "value of eleven bytes": (LATER_NUMBER + b"\x80" * 10 + b"\x01", FrameFault.OUT_OF_RANGE),
    "bytes of a later release": (LATER_BYTES + b"\x01?", FrameFault.UNKNOWN_FIELD),
    "group": (varint(LATER << 3 | 3), FrameFault.WIRE_TYPE),
    "end of a group": (varint(LATER << 3 | 4), FrameFault.WIRE_TYPE),
    "wire type 6": (varint(LATER << 3 | 6), FrameFault.WIRE_TYPE),
    "wire type 7": (varint(LATER << 3 | 7), FrameFault.WIRE_TYPE),
    "overrun of bytes": (LATER_BYTES + b"\x40", FrameFault.TRUNCATED_FIELD),
    "overrun of 64 bits": (varint(LATER << 3 | 1) + bytes(4), FrameFault.TRUNCATED_FIELD),
    "overrun of 32 bits": (varint(LATER << 3 | 5) + bytes(3), FrameFault.TRUNCATED_FIELD),
}
"""Bytes that are added to a message, and the fault that ends the connection."""

Place = tuple[str, tuple[int, ...]]
Write = Callable[[bytes], bytes]


def encode(fields: Nested, path: Sequence[int] = (), change: Write | None = None) -> bytes:
    """A message; the one that a path of field numbers leads to is changed."""
    encoded = b""
    for number, value in fields:
        if not isinstance(value, list):
            encoded += peer.message((number, value))
        elif path and number == path[0]:
            encoded += peer.message((number, encode(value, path[1:], change)))
        else:
            encoded += peer.message((number, encode(value)))
    return change(encoded) if change is not None and not path else encoded


def append(added: bytes, usual: bytes) -> bytes:
    """A message with bytes behind what belongs there."""
    return usual + added


def replace_first(size: int, other: bytes, usual: bytes) -> bytes:
    """A message with other bytes, at its end, in place of its first ones."""
    return usual[size:] + other


def places_of(fields: Nested, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Paths to a message and to all that are nested in it."""
    found = [path]
    for number, value in fields:
        if isinstance(value, list):
            found += places_of(value, (*path, number))
    return found


PLACES: list[Place] = [
    *((name, path) for name, (_, fields) in COMMANDS.items() for path in places_of(fields)),
    *(("metadata of SEND", path) for path in places_of(METADATA)),
    *(("CONNECT", path) for path in places_of(CONNECT)),
    *(("AUTH_RESPONSE", path) for path in places_of(AUTH_RESPONSE)),
]

SIGNS_OF_LIFE = ("PING", "PONG")
"""They have no field of their own."""

PLACES_WITH_FIELDS = [place for place in PLACES if place[0] not in SIGNS_OF_LIFE]


def frame_with(place: Place, change: Write | None = None) -> bytes:
    """The frame of a place, whose message there is changed."""
    name, path = place
    if name == "metadata of SEND":
        metadata = encode(METADATA, path, change)
        payload = len(metadata).to_bytes(4, "big") + metadata + b"x" * 100
        return peer.frame(peer.message((1, 6), (6, peer.message((1, 1), (2, 0)))), payload)
    if name in ("CONNECT", "AUTH_RESPONSE"):
        kind, fields = (2, CONNECT) if name == "CONNECT" else (37, AUTH_RESPONSE)
    else:
        kind, fields = COMMANDS[name]
    payload = peer.payload_of(b"x" * 100) if kind == 6 else b""
    return peer.frame(peer.message((1, kind), (kind, encode(fields, path, change))), payload)


def first_field_of(place: Place) -> tuple[int, int | bytes | str]:
    """Number and value of the first field of a place's message."""
    name, path = place
    fields = {
        "metadata of SEND": METADATA, "CONNECT": CONNECT, "AUTH_RESPONSE": AUTH_RESPONSE,
    }.get(name) or COMMANDS[name][1]  # fmt: skip
    for number in path:
        (fields,) = [
            value for field, value in fields if field == number and isinstance(value, list)
        ]
    number, value = fields[0]
    assert not isinstance(value, list)
    return number, value


def take_apart_fields(message: bytes) -> list[tuple[int, bytes]]:
    """The fields of a message whose numbers and sizes take one byte each, as they are written."""
    fields, pos = [], 0
    while pos < len(message):
        end = pos + 2 + (message[pos + 1] if message[pos] & 7 == 2 else 0)
        fields.append((message[pos] >> 3, message[pos:end]))
        pos = end
    return fields


def client_for(bench: Bench, name: str = "") -> Client:
    """A connection on which a frame of this name may come: producer 1 and consumer 1 are there."""
    client = bench.client(connected=name != "CONNECT")
    if name != "CONNECT":
        client.opens(peer.producer(TOPIC), peer.subscribe(TOPIC, request_id=2))
    if name == "AUTH_RESPONSE":
        client.is_sent(peer.command(36, (1, "broker")))
    if name == "PONG":
        client.is_sent(peer.PING)
    return client


def named(place: Place) -> str:
    """A place's name, for pytest."""
    name, path = place
    return ".".join([name, *map(str, path)])


@pytest.mark.parametrize("place", PLACES, ids=named)
def test_the_canonical_form_passes(bench: Bench, place: Place) -> None:
    """No case below is refused for another reason; numbers of a later release pass, too."""
    name, _ = place
    numbers = LATER_NUMBER + b"\x05" + varint(LATER << 3 | 1) + bytes(8) + varint(LATER << 3 | 5)

    client = client_for(bench, name)

    assert client.sends(frame_with(place)) == [frame_with(place)]
    if name not in ("CONNECT", "LOOKUP", "PARTITIONED_METADATA"):  # written anew without them
        with_numbers = frame_with(place, lambda usual: usual + numbers + bytes(4))
        again = client_for(bench, name)
        assert again.sends(with_numbers) == [with_numbers]


@pytest.mark.parametrize("place", PLACES, ids=named)
def test_what_two_decoders_could_read_differently_ends_the_connection(
    bench: Bench, place: Place
) -> None:
    """This holds at every level; the frames before it have passed."""
    faults = {
        spelling: client_for(bench, place[0]).ends(
            peer.PING, frame_with(place, partial(append, added))
        )
        for spelling, (added, _) in ADDED.items()
    }

    assert faults == {spelling: fault for spelling, (_, fault) in ADDED.items()}


@pytest.mark.parametrize("place", PLACES_WITH_FIELDS, ids=named)
def test_a_field_that_comes_twice_ends_the_connection(bench: Bench, place: Place) -> None:
    """One decoder could take the first value and one the last."""
    first = peer.message(first_field_of(place))

    client = client_for(bench, place[0])

    fault = client.ends(frame_with(place, lambda usual: usual + first))
    assert fault is FrameFault.REPEATED_FIELD


@pytest.mark.parametrize("place", PLACES_WITH_FIELDS, ids=named)
def test_a_field_of_the_wrong_wire_type_ends_the_connection(bench: Bench, place: Place) -> None:
    """A number as bytes is what packed ones look like; LightProto skips what it does not expect."""
    number, value = first_field_of(place)
    other_kind = (2, b"\x01\x05") if isinstance(value, int) else (0, b"\x05")
    size = len(peer.message((number, value)))

    for wire_type, raw in ((1, bytes(8)), (5, bytes(4)), other_kind):
        wrong = varint(number << 3 | wire_type) + raw
        frame = frame_with(place, partial(replace_first, size, wrong))
        assert client_for(bench, place[0]).ends(frame) is FrameFault.WIRE_TYPE, wire_type


PRODUCER_BODY = encode(COMMANDS["PRODUCER"][1])
PRODUCER_HEAD = b"\x08\x05\x2a" + varint(len(PRODUCER_BODY))


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (b"\x08\x13" + PRODUCER_HEAD + PRODUCER_BODY, FrameFault.LAYOUT),
        (b"\x08\x05" + PRODUCER_HEAD + PRODUCER_BODY, FrameFault.LAYOUT),
        (PRODUCER_HEAD + PRODUCER_BODY + b"\x08\x13", FrameFault.LAYOUT),
        (PRODUCER_HEAD[2:] + PRODUCER_BODY + b"\x08\x05", FrameFault.LAYOUT),
        (PRODUCER_HEAD + PRODUCER_BODY + PRODUCER_HEAD[2:] + PRODUCER_BODY, FrameFault.LAYOUT),
        (PRODUCER_HEAD + PRODUCER_BODY + b"\x9a\x01\x00", FrameFault.LAYOUT),
        (PRODUCER_HEAD + PRODUCER_BODY + b"\x00", FrameFault.LAYOUT),
        (PRODUCER_HEAD + PRODUCER_BODY[:-1], FrameFault.LAYOUT),
        (b"\x08\x13" + PRODUCER_HEAD[2:] + PRODUCER_BODY, FrameFault.LAYOUT),
        (b"\x88\x00" + PRODUCER_HEAD[1:] + PRODUCER_BODY, FrameFault.LAYOUT),
        (b"\x08\x85\x00" + PRODUCER_HEAD[2:] + PRODUCER_BODY, FrameFault.OVERLONG),
        (PRODUCER_HEAD[:2] + b"\xaa\x00" + PRODUCER_HEAD[3:] + PRODUCER_BODY, FrameFault.OVERLONG),
        (PRODUCER_HEAD[:-1] + bytes([PRODUCER_HEAD[-1] | 0x80, 0]) + PRODUCER_BODY, FrameFault.OVERLONG),
        (b"\x08\x05" + varint(1 << 32 | 0x2A) + PRODUCER_HEAD[3:] + PRODUCER_BODY, FrameFault.LAYOUT),
        (b"\x08" + varint(1 << 32 | 5) + PRODUCER_HEAD[2:] + PRODUCER_BODY, FrameFault.LAYOUT),
        (b"\x08" + varint(1 << 29 | 5) + varint(1 << 32 | 0x2A) + b"\x06" + bytes(6), FrameFault.LAYOUT),
        (b"\x08" + b"\xff" * 9 + b"\x02" + PRODUCER_HEAD[2:] + PRODUCER_BODY, FrameFault.OUT_OF_RANGE),
        (b"\x08\x05\x2b" + PRODUCER_HEAD[3:] + PRODUCER_BODY, FrameFault.LAYOUT),
    ],
    ids=[
        "type twice", "same type twice", "type behind", "type last", "command twice", "two commands",
        "a byte behind", "a byte missing", "command of another type", "overlong tag of the type",
        "overlong type", "overlong tag", "overlong length", "tag of 33 bits", "type of 33 bits",
        "type of a tag of 33 bits", "type of 65 bits", "group",
    ],
)  # fmt: skip
def test_a_command_is_its_type_and_one_message(
    bench: Bench, command: bytes, fault: FrameFault
) -> None:
    """Their order is fixed and no byte follows, or protobuf would take the last of two."""
    assert client_for(bench).ends(peer.PING, peer.frame(command)) is fault


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "SEND"])
def test_only_a_send_has_a_payload(bench: Bench, name: str) -> None:
    """The broker could read on where the gate has stopped."""
    frame = frame_with((name, ()))
    longer = len(frame).to_bytes(4, "big") + frame[4:] + peer.payload_of(b"x")[:4]

    assert client_for(bench).ends(longer) is FrameFault.PAYLOAD


def overrun() -> bytes:
    """A PRODUCER one of whose properties reaches, by its size, into a topic behind it."""
    hidden = peer.message((1, "persistent://other/ns/topic"))
    property_ = peer.message((1, "key")) + b"\x12" + varint(20)  # its value is said to be longer
    outer = b"\x32" + varint(len(property_)) + property_ + b"\x3a" + varint(len(hidden)) + hidden
    fields = peer.message((1, TOPIC), (2, 9), (3, 50)) + outer
    return peer.frame(peer.message((1, 5), (5, fields)))


def nested(depth: int) -> bytes:
    """An ACK whose message id holds the id of its first chunk, which holds another one, and so on."""
    message_id = peer.message((1, 5), (2, 6))
    for _ in range(depth):
        message_id = peer.message((1, 5), (2, 6), (7, message_id))
    return peer.command(10, (1, 1), (2, 0), (3, message_id))


def with_broker_entry() -> bytes:
    """A SEND with metadata that only a broker writes, which Pulsar skips to read others."""
    payload = b"\x0e\x02\x00\x00\x00\x02\x08\x01" + peer.payload_of(b"x" * 50)
    return peer.frame(peer.message((1, 6), (6, peer.message((1, 1), (2, 0)))), payload)


@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        (overrun(), FrameFault.TRUNCATED_FIELD),
        (nested(5), FrameFault.NESTING),
        # A broker reads an int32, and would take away what the client gives.
        (peer.flow(1, 2**31), FrameFault.OUT_OF_RANGE),
        (peer.flow(1, 2**32 - 1), FrameFault.OUT_OF_RANGE),
        # It would take an unknown type for another one.
        (peer.subscribe(TOPIC, 9, 50, kind=4), FrameFault.OUT_OF_RANGE),
        (with_broker_entry(), FrameFault.BROKER_ENTRY),
    ],
    ids=["overrun", "nesting", "permits", "more permits", "subscription", "broker entry"],
)
def test_what_pulsar_would_take_for_something_else_ends_the_connection(
    bench: Bench, frame: bytes, fault: FrameFault
) -> None:
    """The frames before it have passed."""
    assert client_for(bench).ends(peer.send(), frame) is fault


@pytest.mark.parametrize("field", [5, 31])
def test_a_field_that_may_be_packed_comes_either_way(bench: Bench, field: int) -> None:
    """ack_set of an ACK and null values of metadata; their numbers are held to the same rules."""

    def frame(raw: bytes) -> bytes:
        if field == 5:
            message_id = peer.message((1, 5), (2, 6)) + raw
            return peer.command(10, (1, 1), (2, 0), (3, message_id))
        return frame_with(("metadata of SEND", ()), lambda usual: usual + raw)

    number, packed = varint(field << 3), varint(field << 3 | 2)
    usual = [
        frame(number + b"\x05" + number + b"\x06"),
        frame(packed + b"\x02\x05\x06"),
        frame(packed + b"\x00"),
    ]
    broken = {
        packed + b"\x02\x85\x00": FrameFault.OVERLONG,
        packed + b"\x0a" + b"\xff" * 9 + b"\x03": FrameFault.OUT_OF_RANGE,
        number + b"\x85\x00": FrameFault.OVERLONG,
    }

    assert client_for(bench).sends(*usual) == usual
    for raw, fault in broken.items():
        assert client_for(bench).ends(*usual, frame(raw)) is fault
    assert client_for(bench).ends(frame(packed + b"\x02\x05\x85")) is not None


NUMBERS: list[tuple[str, tuple[int, ...], int, int, bool]] = [
    ("SEND", (), 3, 2**31 - 1, True), ("SEND", (), 3, 2**31, False), ("SEND", (), 3, 2**64 - 1, False),
    ("SEND", (), 7, 1, True), ("SEND", (), 7, 2, False), ("SEND", (), 6, 2**64 - 1, True),
    ("SEND", (9,), 3, 2**64 - 1, True), ("SEND", (9,), 3, 2**64 - 2**31, True),
    ("SEND", (9,), 3, 2**64 - 2**31 - 1, False), ("SEND", (9,), 3, 2**32 - 1, False),
    ("metadata of SEND", (), 11, 2**31 - 1, True), ("metadata of SEND", (), 11, 2**31, False),
    ("metadata of SEND", (), 11, 2**64 - 1, False), ("metadata of SEND", (), 9, 2**32 - 1, True),
    ("metadata of SEND", (), 9, 2**32, False), ("metadata of SEND", (), 25, 2, False),
    ("PRODUCER", (), 10, 2**64 - 1, True), ("PRODUCER", (), 10, 2**31, False),
    ("PRODUCER", (), 5, 3, False), ("ACK", (3,), 4, 2**31, False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "field", "value", "fits"), NUMBERS)
def test_a_number_fits_its_field(
    bench: Bench, name: str, path: tuple[int, ...], field: int, value: int, fits: bool
) -> None:
    """A decoder that cuts one off would read another number; negative ones are ten bytes long."""
    client = client_for(bench)
    frame = frame_with((name, path), lambda usual: usual + peer.message((field, value)))

    if fits:
        assert client.sends(frame) == [frame]
    else:
        assert client.ends(frame) is FrameFault.OUT_OF_RANGE


@pytest.mark.parametrize(("name", "field"), [("PRODUCER", 1), ("SUBSCRIBE", 1), ("SUBSCRIBE", 2)])
def test_names_are_utf_8(bench: Bench, name: str, field: int) -> None:
    """Java would replace what is not, and take the topic for another one."""
    kind, fields = COMMANDS[name]
    wrong: Nested = [(n, b"persistent://a/b/\xc3\x28" if n == field else v) for n, v in fields]
    frame = peer.frame(peer.message((1, kind), (kind, encode(wrong))))

    assert client_for(bench).ends(frame) is FrameFault.TEXT


@pytest.mark.parametrize(
    "payload",
    [
        b"\x00\x00\x00\x09" + bytes(8),
        b"\xff\xff\xff\xff" + bytes(8),
        b"\x0e\x01" + bytes(4) + b"\x00\x00\x00\x03" + bytes(2),
        b"\x00\x00\x00",
        b"",
    ],
    ids=["a byte too long", "negative", "behind a checksum", "cut off", "none"],
)
def test_metadata_lie_inside_their_frame(bench: Bench, payload: bytes) -> None:
    """Otherwise the broker would read the next messages as a part of them."""
    frame = peer.frame(peer.message((1, 6), (6, peer.message((1, 1), (2, 0)))), payload)

    with pytest.raises(MalformedFrame) as raised:
        client_for(bench).sends(frame, peer.PING)

    assert raised.value.fault is FrameFault.METADATA_SIZE


REQUIRED_OF_METADATA = [((), 1), ((), 2), ((), 3), ((4,), 1), ((4,), 2), ((13,), 1), ((13,), 2),
                        ((13, 3), 1)]  # fmt: skip


@pytest.mark.parametrize(("path", "field"), REQUIRED_OF_METADATA)
def test_metadata_without_a_required_field_end_the_connection(
    bench: Bench, path: tuple[int, ...], field: int
) -> None:
    """A broker could store such a message, and each of its consumers would fail to read it."""
    place = ("metadata of SEND", path)

    def without(usual: bytes) -> bytes:
        fields = take_apart_fields(usual)
        return b"".join(raw for number, raw in fields if number != field)

    assert client_for(bench).ends(peer.send(), frame_with(place, without)) is (
        FrameFault.MISSING_FIELD
    )


@pytest.mark.parametrize("field", [8, 13])
def test_compressed_or_encrypted_metadata_have_the_same_required_fields(
    bench: Bench, field: int
) -> None:
    """Producers of all libraries write them whatever becomes of the content."""
    keys = peer.message((1, "key"), (2, b"secret"))
    extra = peer.message((8, 3), (9, 600)) if field == 8 else peer.message((13, keys), (15, b"iv"))
    usual = peer.message((1, "name"), (2, 17), (3, 18)) + extra
    complete, anonymous = (
        peer.frame(
            peer.message((1, 6), (6, peer.message((1, 1), (2, 0)))),
            len(metadata).to_bytes(4, "big") + metadata + b"x" * 100,
        )
        for metadata in (usual, usual[6:])
    )

    assert client_for(bench).ends(complete, anonymous) is FrameFault.MISSING_FIELD


@pytest.mark.parametrize("name", ["PRODUCER", "SEND", "FLOW"])
def test_the_way_the_bytes_arrive_hides_nothing(bench: Bench, name: str) -> None:
    """A frame that comes byte by byte is refused as the same one in a piece."""
    frame = frame_with((name, ()), lambda usual: usual + LATER_BYTES + b"\x01?")
    client = client_for(bench)

    end = 8 + int.from_bytes(frame[4:8], "big")

    for byte in frame[: end - 1]:
        assert client.sends(bytes([byte])) == []

    assert client.ends(frame[end - 1 : end]) is FrameFault.UNKNOWN_FIELD

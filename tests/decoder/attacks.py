"""Frames by which a limit could be left or a role borrowed once; each is a case of its own.

What they have in common is that a hurried reader takes them for something else than Pulsar does.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.decoder.cases import TARGET, Case
from tests.decoder.wire import BROKER_ENTRY, Draft, Field, Fields, take_apart, varint
from tests.gate import peer
from tests.gate.conftest import TOPIC

_FREE = "persistent://tenant/other/free"
_TAG_BIT = 1 << 32


def cases() -> Iterator[Case]:
    """All of them, with names that say what they do."""
    for name, frames in _published().items():
        yield Case(name, frames, limited=True, delayed=True)
    for name, frame in _connecting().items():
        for certified in (False, True):
            yield Case(name, [frame], opened=None, vouches=True, certified=certified)


def _published() -> dict[str, list[bytes]]:
    producer, send = peer.producer(TOPIC, 7, 7), peer.send(1, 0, 1)
    return {
        "type twice": [_edited(producer, lambda draft: draft.command.insert(0, Field(1, 0, 19)))],
        "type twice, the last unknown": [
            _edited(producer, lambda draft: draft.command.append(Field(1, 0, 300)))
        ],
        "overlong type": [_edited(producer, lambda draft: _write(draft.command[0], varint(5, 2)))],
        "type behind a tag of 33 bits": [
            _edited(peer.PING, lambda draft: draft.command.append(_hidden(Field(1, 0, 5)))),
        ],
        "id behind a tag of 33 bits": [
            _edited(send, lambda draft: _inner(draft).append(_hidden(Field(1, 0, 300))))
        ],
        "id and 2**64": [
            _edited(send, lambda draft: _write(_inner(draft)[0], varint(300 + (1 << 64)))),
        ],
        "messages behind a tag of 33 bits": [
            _edited(send, lambda draft: _inner(draft).append(_hidden(Field(3, 0, 7))))
        ],
        "messages and 2**32": [
            _edited(send, lambda draft: _inner(draft).append(Field(3, 0, 5 + (1 << 32)))),
        ],
        "fewer messages in the command than in the batch": [_batch_of(10)],
        "time of delivery behind a tag of 33 bits": [
            _edited(send, lambda draft: _metadata(draft).append(_hidden(Field(19, 0, 1)))),
        ],
        "time of delivery behind a longer tag": [
            _edited(send, lambda draft: _metadata(draft).append(Field(19, 0, 1, varint(152, 3)))),
        ],
        "a broker's entry": [
            _edited(send, lambda draft: setattr(draft, "head", BROKER_ENTRY + bytes(4))),
        ],
        "a name that ends behind its message": [
            _edited(producer, lambda draft: _write(_inner(draft)[0], varint(40) + TOPIC.encode())),
        ],
        "an id that is in use": [peer.producer(_FREE, 1, 8), peer.send(1)],
        "a consumer's id that is in use": [peer.subscribe(_FREE, 1, 8), peer.flow(1, 10)],
        "the id of a request that is under way": [
            peer.unsubscribe(99, 6), peer.producer(TOPIC, 7, 6), peer.send(7),
        ],
        "a listener": [peer.command(23, (1, TOPIC), (2, 8), (7, "internal"))],
        "a listener behind a tag of 33 bits": [
            _edited(
                peer.command(23, (1, TOPIC), (2, 8)),
                lambda draft: _inner(draft).append(_hidden(Field(7, 2, b"internal"))),
            )
        ],
    }  # fmt: skip


def _connecting() -> dict[str, bytes]:
    connect = peer.command(2, (1, "c"), (4, 19), (6, TARGET))
    role = (Field(5, 2, b"tls"), Field(7, 2, b"admin"))
    longer = [Field(each.number, 2, each.value, varint(each.number << 3 | 2, 3)) for each in role]
    twice = [
        *take_apart(connect).command,
        *take_apart(peer.command(2, (1, "c"), (5, "tls"))).command,
    ]
    return {
        "a role": _edited(connect, lambda draft: _inner(draft).extend(role)),
        "a role behind tags of 33 bits": _edited(
            connect, lambda draft: _inner(draft).extend(map(_hidden, role))
        ),
        "a role behind longer tags": _edited(connect, lambda draft: _inner(draft).extend(longer)),
        "a role in a second command": Draft(twice).encode(),
        "a broker behind a tag of 33 bits": _edited(
            connect, lambda draft: _inner(draft).append(_hidden(Field(6, 2, b"theirs:6650")))
        ),
    }


def _edited(frame: bytes, edit: object) -> bytes:
    draft = take_apart(frame)
    assert callable(edit)
    edit(draft)
    return draft.encode()


def _inner(draft: Draft) -> Fields:
    fields = draft.command[1].value
    assert isinstance(fields, list)
    return fields


def _metadata(draft: Draft) -> Fields:
    assert draft.metadata is not None
    return draft.metadata


def _hidden(field: Field) -> Field:
    field = field.copy()
    field.tag = varint((field.number << 3 | field.kind) + _TAG_BIT)
    return field


def _write(field: Field, body: bytes) -> None:
    field.body = body


def _batch_of(count: int) -> bytes:
    draft = take_apart(peer.send(1, 0, 1, content=b"\0\0\0\2\x18\0" * count))
    _metadata(draft).append(Field(11, 0, count))
    return draft.encode()

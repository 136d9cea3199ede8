"""The JSON document of an audit entry: author, subject, before and after.

Its number and its time belong to the node, not to the document. It contains definitions as the documents
that the store held, so a new release can roll back what an old one wrote, under the same rules.
"""

from __future__ import annotations

import json
from typing import Any

from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import OwnerKind
from coordinator.core.topics import TopicName
from coordinator.ports import AuditEntry, Origin
from coordinator.wire.documents import (
    DocumentError,
    decode_attachment,
    decode_fields,
    decode_group,
    decode_topic_limit,
    encode_attachment,
    encode_fields,
    encode_group,
    encode_topic_limit,
    text_of,
)
from coordinator.wire.owner_names import owner_in_subject

_SUBJECTS = ("groups", "topics", *(kind.value for kind in OwnerKind))

State = ResourceGroup | Rates | str | None


def topic_subject(topic: TopicName) -> str:
    """Return the audit trail's name of a topic with limits."""
    return f"topics/{topic}"


def encode_audit_entry(subject: str, before: State, after: State, by: Origin) -> bytes:
    """Encode a change as a document."""
    return encode_fields(
        {
            "actor": by.actor,
            "address": by.address,
            "undoes": by.undoes,
            "subject": subject,
            "before": _encode_state(subject, before),
            "after": _encode_state(subject, after),
        }
        | ({} if by.is_super_user else {"tenant": by.tenant})
    )


def decode_audit_entry(entry_id: int, at_ms: int, data: bytes) -> AuditEntry:
    """Read an entry.

    Raises:
        DocumentError: the document is broken, or newer than this code.
    """
    fields = decode_fields(data)
    subject = text_of(fields, "subject")
    kind, _, name = subject.partition("/")
    if kind not in _SUBJECTS:
        raise DocumentError(f"subject must begin with one of {', '.join(_SUBJECTS)}")
    if kind == "topics" and TopicName.parse(name) is None:
        raise DocumentError(f"subject must name a topic, found {name!r:.80}")
    owner_in_subject(subject)
    undoes = fields.get("undoes")
    if undoes is not None and type(undoes) is not int:
        raise DocumentError(f"undoes must be a number, found {undoes!r:.80}")
    return AuditEntry(
        id=entry_id,
        at_ms=at_ms,
        origin=Origin(
            text_of(fields, "actor"),
            text_of(fields, "address"),
            undoes,
            text_of(fields, "tenant") if "tenant" in fields else "",
        ),
        subject=subject,
        before=_decode_state(subject, fields.get("before")),
        after=_decode_state(subject, fields.get("after")),
    )


def _encode_state(subject: str, state: State) -> Any:
    match state:
        case None:
            return None
        case ResourceGroup():
            return json.loads(encode_group(state))
        case str():
            return json.loads(encode_attachment(state))
        case Rates():
            topic = TopicName.parse(subject.partition("/")[2])
            assert topic is not None
            return json.loads(encode_topic_limit(topic, state))


def _decode_state(subject: str, document: Any) -> State:
    if document is None:
        return None
    data = json.dumps(document).encode()
    kind, _, name = subject.partition("/")
    match kind:
        case "groups":
            return decode_group(name, data, 0)
        case "topics":
            return decode_topic_limit(data)
        case _:
            return decode_attachment(data)

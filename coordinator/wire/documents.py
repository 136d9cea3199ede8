"""The JSON documents that the store holds: groups, attachments, topics, ledgers and members.

Every document is one JSON object with ``"schema": 1``. A reader takes what it knows and ignores other
fields, so fields can be added without a new schema; a schema number above its own means that the
meaning of a known field changed, and then the reader must not guess: it refuses the whole document.
Refusing is cheap, because a document that cannot be read is a fault of that one entry and the last
definition that could be read stays in force.

Rates carry Pulsar's field names and Pulsar's -1 for "unlimited"; this module is one of the few places
that know it. Encoding is canonical (sorted keys, no spaces), so equal definitions are equal bytes.

Documents come from other processes and from people with a ZooKeeper shell, so decoding trusts nothing:
every mistake, however odd, is a `DocumentError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from coordinator.core.allocation import WEIGHTS
from coordinator.core.escrow import NOTHING, TOTAL, total
from coordinator.core.laws import LAWS
from coordinator.core.model import (
    Account,
    Dimension,
    LedgerRecord,
    Parts,
    Rates,
    ResourceGroup,
)
from coordinator.core.observing import ENFORCE, ENFORCEMENTS
from coordinator.core.policies import PARTITION_POLICIES, POLICIES
from coordinator.core.topics import TopicName

SCHEMA = 1
"""The newest schema that this code understands."""

MAX_RATE = 2**63 - 1
"""Pulsar keeps rates in a Java long."""

_UNLIMITED = -1
_LOCAL_NAME_MAX = 255
_NAME = re.compile(r"[A-Za-z0-9_.:=-]{1,255}")


class DocumentError(ValueError):
    """A document that cannot be understood; the text says why, for people."""


def validate_name(name: str) -> str:
    """Return the name of a group, tenant, namespace or broker if it can be one.

    Pulsar's own pattern for tenants and namespaces. It leaves out the slash, because Pulsar's brokers
    fail to start on a group whose name holds one, and ``.`` and ``..``, which ZooKeeper refuses.

    Raises:
        ValueError: the name breaks the pattern.
    """
    if _NAME.fullmatch(name) is None or name in {".", ".."}:
        raise ValueError(f"{name!r} is not a name: use 1 to 255 of A-Z a-z 0-9 _ . : = -")
    return name


def encode_group(group: ResourceGroup) -> bytes:
    """The document of a group; its name and version are the node's, not the document's.

    Raises:
        ValueError: the definition could not be read back, so it must not be written.
    """
    data = encode_fields(
        _rates_fields(group.limits)
        | {
            "law": group.law,
            "weights": group.weights,
            "overshootPolicy": group.overshoot_policy,
            "partitionPolicy": group.partition_policy,
        }
        | _observing_fields(group)
    )
    decode_group(validate_name(group.name), data, group.configuration_version)
    return data


def _observing_fields(group: ResourceGroup) -> dict[str, str]:
    """Only of a group that holds nothing back: the document of any other is what it always was."""
    fields = {} if group.enforcement == ENFORCE else {"enforcement": group.enforcement}
    return fields | ({"observes": group.observes} if group.observes else {})


def decode_group(name: str, data: bytes, configuration_version: int) -> ResourceGroup:
    """Read a group's document; an absent field has its default, an absent rate is unlimited.

    Raises:
        DocumentError: the document is broken, newer than this code, or names what it does not know.
    """
    fields = decode_fields(data)
    defaults = ResourceGroup(name, Rates())
    return ResourceGroup(
        name=name,
        limits=_rates(fields),
        law=_choice(fields, "law", defaults.law, tuple(LAWS)),
        weights=_choice(fields, "weights", defaults.weights, tuple(WEIGHTS)),
        overshoot_policy=_choice(
            fields, "overshootPolicy", defaults.overshoot_policy, tuple(POLICIES)
        ),
        partition_policy=_choice(
            fields, "partitionPolicy", defaults.partition_policy, PARTITION_POLICIES
        ),
        enforcement=_choice(fields, "enforcement", defaults.enforcement, ENFORCEMENTS),
        observes=_name(_text(fields, "observes")) if "observes" in fields else "",
        configuration_version=configuration_version,
    )


def encode_attachment(group: str) -> bytes:
    """The document of a tenant's or namespace's attachment to a group."""
    return encode_fields({"group": group})


def decode_attachment(data: bytes) -> str:
    """Read which group an attachment names.

    Raises:
        DocumentError: the document is broken, newer than this code, or its group's name is no name.
    """
    return _name(_text(decode_fields(data), "group"))


def validate_limited_topic(topic: TopicName) -> TopicName:
    """Return a topic's name if the topic can have limits of its own.

    Raises:
        ValueError: its tenant or namespace is no name, it is one partition, or its local name
            is too long, has a slash or is not printable.
    """
    validate_name(topic.tenant)
    validate_name(topic.namespace)
    whole = topic.split_partition()[0]
    if whole != topic:
        raise ValueError(f"{topic} is one partition: limit {whole}, each partition gets its part")
    local_name = topic.local_name
    if (
        not local_name.isprintable()
        or "/" in local_name
        or not 0 < len(local_name) <= _LOCAL_NAME_MAX
    ):
        raise ValueError(
            f"{topic!s:.80} is not a topic: use 1 to {_LOCAL_NAME_MAX} printable letters, no slash"
        )
    return topic


def encode_topic_limit(topic: TopicName, limits: Rates) -> bytes:
    """The document of a topic's limits; the topic's name is the node's.

    Raises:
        ValueError: the document could not be read back, so it must not be written.
    """
    validate_limited_topic(topic)
    data = encode_fields(_rates_fields(limits))
    decode_topic_limit(data)
    return data


def decode_topic_limit(data: bytes) -> Rates:
    """Read the document of a topic's limits; an absent rate is unlimited.

    Raises:
        DocumentError: the document is broken, newer than this code, or limits nothing.
    """
    limits = _rates(decode_fields(data))
    if limits == Rates():
        raise DocumentError("the limits of a topic must limit something")
    return limits


def encode_ledger(record: LedgerRecord) -> bytes:
    """The document of a strict group's ledger; generation and version are the node's.

    Raises:
        ValueError: the record could not be read back, so it must not be written.
    """
    data = encode_fields(
        {
            "bases": {_account_text(account): base for account, base in record.bases.items()},
            "claimed": sorted(map(_account_text, record.claimed)),
        }
    )
    decode_ledger(validate_name(record.group), data, record.generation, record.version)
    return data


def decode_ledger(group: str, data: bytes, generation: int, version: int) -> LedgerRecord:
    """Read the document of a strict group's ledger.

    Raises:
        DocumentError: the document is broken, newer than this code, or its bases do not add up.
    """
    fields = decode_fields(data)
    bases, claimed = fields.get("bases"), fields.get("claimed")
    if not isinstance(bases, dict) or not isinstance(claimed, list):
        raise DocumentError("a ledger has an object of bases and a list of claimed accounts")
    record = LedgerRecord(
        group,
        generation,
        version,
        {_account(text): _parts(parts) for text, parts in bases.items()},
        frozenset(map(_account, claimed)),
    )
    if (sum_ := total(record.bases.values())) != (TOTAL,) * len(NOTHING):
        raise DocumentError(f"the bases of a ledger must add up to {TOTAL} each, found {sum_}")
    return record


def encode_member(api_address: str, version: str) -> bytes:
    """The document of a registered sidecar: where its admin API listens, which release it is."""
    return encode_fields({"apiAddress": api_address, "version": version})


def decode_member(data: bytes) -> str:
    """Read a member's API address.

    Raises:
        DocumentError: the document is broken or newer than this code.
    """
    return _text(decode_fields(data), "apiAddress")


def encode_fields(fields: Mapping[str, Any]) -> bytes:
    """A document with these fields."""
    document = {"schema": SCHEMA, **fields}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def decode_fields(data: bytes) -> dict[str, Any]:
    """The fields of a document, not yet looked at.

    Raises:
        DocumentError: it is no document, or newer than this code.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:  # a megabyte of "[" is deeper than the stack
        raise DocumentError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DocumentError("not a JSON object")
    schema = document.get("schema")
    if type(schema) is not int or schema < 1:
        raise DocumentError(f"schema must be a positive integer, found {schema!r:.80}")
    if schema > SCHEMA:
        raise DocumentError(f"schema {schema} is newer than {SCHEMA}, the newest known here")
    return document


def _account_text(account: Account) -> str:
    return f"{account.broker}@{account.incarnation}"


def _account(text: object) -> Account:
    broker, _, incarnation = text.rpartition("@") if isinstance(text, str) else ("", "", "")
    if not re.fullmatch(r"[0-9]{1,19}", incarnation):
        raise DocumentError(f"an account must look like broker@incarnation, found {text!r:.80}")
    return Account(_name(broker), int(incarnation))


def _parts(values: object) -> Parts:
    if not isinstance(values, list) or len(values) != len(NOTHING):
        raise DocumentError(f"a base must have {len(NOTHING)} numbers, found {values!r:.80}")
    if any(type(value) is not int or abs(value) > MAX_RATE for value in values):
        raise DocumentError(f"a base must have integers up to {MAX_RATE}, found {values!r:.80}")
    return (values[0], values[1], values[2], values[3])


def _rates_fields(rates: Rates) -> dict[str, Any]:
    return {d.value: _UNLIMITED if (r := rates.of(d)) is None else r for d in Dimension}


def _rates(fields: dict[str, Any]) -> Rates:
    return Rates.from_mapping({d: _rate(fields, d.value) for d in Dimension})


def _rate(fields: dict[str, Any], key: str) -> int | None:
    rate = fields.get(key, _UNLIMITED)
    # bool is an int to Python, and 1.0 is not a count.
    if type(rate) is not int or not _UNLIMITED <= rate <= MAX_RATE:
        raise DocumentError(f"{key} must be an integer from -1 to {MAX_RATE}, found {rate!r:.80}")
    return None if rate == _UNLIMITED else rate


def _choice(fields: dict[str, Any], key: str, default: str, known: tuple[str, ...]) -> str:
    chosen = fields.get(key, default)
    if not isinstance(chosen, str) or chosen not in known:
        raise DocumentError(f"{key} must be one of {', '.join(known)}, found {chosen!r:.80}")
    return chosen


def _text(fields: dict[str, Any], key: str) -> str:
    text = fields.get(key)
    if not isinstance(text, str):
        raise DocumentError(f"{key} must be a string, found {text!r:.80}")
    return text


def _name(text: str) -> str:
    try:
        return validate_name(text)
    except ValueError as error:
        raise DocumentError(str(error)) from error

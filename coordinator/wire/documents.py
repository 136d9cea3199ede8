"""The JSON documents that the store holds: groups, attachments, topics, escrow records and members.

Every document is one JSON object with ``"schema": 1``, but three kinds, which have 2: a group with a
parent or with credit, and attachments other than a tenant's and a namespace's. A release that knows none
of these would take a child for a group alone, certify less than credit lets pass, and take other owners
for namespaces, and so it refuses them. A reader takes the fields that it knows and ignores others, so
fields can be added without a new schema; a schema number above its own means that the meaning of a known
field changed, and then the reader must not guess: it refuses the whole document.
Refusing is cheap, because a document that cannot be read is a fault of that one entry and the last
definition that could be read stays in force.

Rates carry Pulsar's field names and Pulsar's -1 for "unlimited"; this module is one of the few places
that know it. Encoding is canonical (sorted keys, no spaces), so equal definitions are equal bytes.

Documents come from other processes and from users of a ZooKeeper shell, so decoding trusts nothing: every
mistake, however odd, is a `DocumentError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from coordinator.core.allocation.laws import LAWS
from coordinator.core.allocation.splitting import WEIGHTS, fault_of_fractions
from coordinator.core.answer import UNLIMITED, exact_to_wire, from_wire
from coordinator.core.demand.observing import ENFORCE, ENFORCEMENTS
from coordinator.core.escrow.books import NOTHING, TOTAL, total
from coordinator.core.handling import MAX_BURST_SECONDS, MAX_HOLD_MILLIS, ON_LIMIT
from coordinator.core.model import (
    Account,
    AnyRates,
    Dimension,
    EscrowRecord,
    ExactRates,
    Parts,
    Rate,
    Rates,
    ResourceGroup,
    Unit,
)
from coordinator.core.owners import validate_tenants
from coordinator.core.rates import rate_of
from coordinator.core.topics import NODE_NAME, SEGMENT, TopicName
from coordinator.core.transfer.policies import PARTITION_POLICIES, POLICIES
from coordinator.core.transfer.tree_rules import GUARANTEE_FIELDS, MAX_WEIGHT

SCHEMA = 1
"""The newest schema that this code understands, but of groups."""

TREE_SCHEMA = 2
"""The schema of a group with a parent or with credit, and the newest that this code understands."""

OWNER_SCHEMA = 2
"""The schema of attachments of other owners, and the newest of these that this code understands."""

MAX_RATE = 2**63 - 1
"""Pulsar keeps rates in a Java long."""

_LOCAL_NAME_MAX = 255
_ESCAPE = "\\u"
_KEY = re.compile(r"([0-9a-f]{64})?")


class DocumentError(ValueError):
    """A document that cannot be understood; the text says why, for people."""


def validate_name(name: str) -> str:
    """Return the name of a group, tenant, namespace or broker if it can be one.

    Pulsar's own pattern for tenants and namespaces. It leaves out the slash, because Pulsar's brokers
    fail to start on a group whose name holds one, and ``.`` and ``..``, which ZooKeeper refuses.

    Raises:
        ValueError: the name breaks the pattern.
    """
    if NODE_NAME.fullmatch(name) is None or name in {".", ".."}:
        raise ValueError(f"{name!r} is not a name: use 1 to 255 of A-Z a-z 0-9 _ . : = -")
    return name


def encode_group(group: ResourceGroup) -> bytes:
    """Encode a group; its name and version belong to the node, not to the document.

    Raises:
        ValueError: the definition could not be read back, so it must not be written.
    """
    data = encode_fields(
        _rates_fields(group.exact_limits)
        | {
            "law": group.law,
            "weights": group.weights,
            "overshootPolicy": group.overshoot_policy,
            "partitionPolicy": group.partition_policy,
        }
        | _observing_fields(group)
        | _tree_fields(group)
        | _handling_fields(group)
        | ({"allowedTenants": list(group.allowed_tenants)} if group.allowed_tenants else {}),
        TREE_SCHEMA if group.parent or group.burst_seconds else SCHEMA,
    )
    decode_group(validate_name(group.name), data, group.configuration_version)
    return data


def _observing_fields(group: ResourceGroup) -> dict[str, str]:
    """Return the observing fields; empty for all other groups, whose documents stay as they were."""
    fields = {} if group.enforcement == ENFORCE else {"enforcement": group.enforcement}
    return fields | ({"observes": group.observes} if group.observes else {})


def _tree_fields(group: ResourceGroup) -> dict[str, Any]:
    """Return the fields of a group in a tree; empty for all others, whose documents stay as they were."""
    fields: dict[str, Any] = {"parent": group.parent} if group.parent else {}
    if group.weight != 1:
        fields["weight"] = group.weight
    guarantees = {
        field: rate
        for dimension, field in GUARANTEE_FIELDS.items()
        if (rate := group.guarantees.of(dimension))
    }
    return fields | guarantees


def _handling_fields(group: ResourceGroup) -> dict[str, Any]:
    """Return how a group's traffic is handled, as far as it is not the default.

    An older release reads past ``onLimit``: at its gate publishes above the limit wait.
    """
    default = ResourceGroup(group.name, group.limits)
    fields: dict[str, Any] = {
        "onLimit": (group.on_limit, default.on_limit),
        "holdMillis": (group.hold_millis, default.hold_millis),
        "burstSeconds": (group.burst_seconds, default.burst_seconds),
    }
    return {name: value for name, (value, usual) in fields.items() if value != usual}


def decode_group(name: str, data: bytes, configuration_version: int) -> ResourceGroup:
    """Read a group's document; an absent field has its default, an absent rate is unlimited.

    Raises:
        DocumentError: the document is broken, newer than this code, or has an unknown value.
    """
    fields = decode_fields(data, TREE_SCHEMA)
    defaults = ResourceGroup(name, Rates())
    limits = ExactRates.from_mapping({each: _limit(fields, each) for each in Dimension})
    group = ResourceGroup(
        name=name,
        limits=limits.whole,
        fractions=limits.fractions,
        law=_choice(fields, "law", defaults.law, tuple(LAWS)),
        weights=_choice(fields, "weights", defaults.weights, tuple(WEIGHTS)),
        overshoot_policy=_choice(
            fields, "overshootPolicy", defaults.overshoot_policy, tuple(POLICIES)
        ),
        partition_policy=_choice(
            fields, "partitionPolicy", defaults.partition_policy, PARTITION_POLICIES
        ),
        enforcement=_choice(fields, "enforcement", defaults.enforcement, ENFORCEMENTS),
        observes=_name(text_of(fields, "observes")) if "observes" in fields else "",
        configuration_version=configuration_version,
        parent=_name(text_of(fields, "parent")) if "parent" in fields else "",
        guarantees=Rates.from_mapping(
            {
                each: _whole(fields, field, 0, 0, MAX_RATE) or None
                for each, field in GUARANTEE_FIELDS.items()
            }
        ),
        weight=_whole(fields, "weight", defaults.weight, 1, MAX_WEIGHT),
        on_limit=_choice(fields, "onLimit", defaults.on_limit, ON_LIMIT),
        hold_millis=_whole(fields, "holdMillis", defaults.hold_millis, 0, MAX_HOLD_MILLIS),
        burst_seconds=_whole(fields, "burstSeconds", defaults.burst_seconds, 0, MAX_BURST_SECONDS),
        allowed_tenants=_tenants(fields.get("allowedTenants", [])),
    )
    if fault := fault_of_fractions(group):
        raise DocumentError(fault)
    return group


def _tenants(names: object) -> tuple[str, ...]:
    try:
        return validate_tenants(names)
    except ValueError as error:
        raise DocumentError(f"allowedTenants: {error}") from error


def encode_attachment(
    group: str, role: str = "", *, by_super_user: bool = True, schema: int = SCHEMA
) -> bytes:
    """Encode an attachment to a group.

    Args:
        group: its name.
        role: the role that attached it; empty is unknown.
        by_super_user: whether that role may do everything; written only if not.
        schema: of a tenant's or namespace's; `OWNER_SCHEMA` of other owners'.
    """
    said: dict[str, Any] = {"attachedBy": role} if role else {}
    fields = {"group": group} | said | ({} if by_super_user else {"superUser": False})
    return encode_fields(fields, schema)


def is_super_users(data: bytes) -> bool:
    """Return whether a super-user made an attachment; True unless its document says otherwise."""
    try:
        return decode_fields(data, OWNER_SCHEMA).get("superUser") is not False
    except DocumentError:
        return True


def decode_attachment(data: bytes, newest: int = SCHEMA) -> str:
    """Read the group that an attachment names.

    Raises:
        DocumentError: the document is broken, newer than the newest schema, or its group's name is not
            valid.
    """
    return _name(text_of(decode_fields(data, newest), "group"))


def validate_limited_topic(topic: TopicName) -> TopicName:
    """Return a topic's name if the topic can have limits of its own.

    Raises:
        ValueError: its tenant or namespace is not valid, it is one partition or segment, or its local
            name is too long, has a slash or is not printable.
    """
    validate_name(topic.tenant)
    validate_name(topic.namespace)
    whole = topic.whole
    if whole != topic:
        what = "segment" if topic.domain == SEGMENT else "partition"
        raise ValueError(f"{topic} is one {what}: limit {whole}, each {what} gets its part")
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


def encode_topic_limit(
    topic: TopicName, limits: Rates, tenants_own: frozenset[Dimension] = frozenset()
) -> bytes:
    """Encode a topic's limits; the topic's name belongs to the node.

    Args:
        topic: the topic.
        limits: its limits.
        tenants_own: the limits that its tenant's admin set; written only if there are any.

    Raises:
        ValueError: the document could not be read back, so it must not be written.
    """
    validate_limited_topic(topic)
    own = {"tenantsOwn": sorted(each.value for each in tenants_own)} if tenants_own else {}
    data = encode_fields(_rates_fields(limits) | own)
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


def tenants_own_in(data: bytes) -> frozenset[Dimension]:
    """Read which limits of a topic's document its tenant's admin set; unknown names do not count.

    Raises:
        DocumentError: as `decode_topic_limit`.
    """
    fields = decode_fields(data)
    limits, said = _rates(fields), fields.get("tenantsOwn")
    own = said if isinstance(said, list) else []
    return frozenset(
        each for each in Dimension if each.value in own and limits.of(each) is not None
    )


def encode_escrow(record: EscrowRecord) -> bytes:
    """Encode a strict group's escrow record; generation and version belong to the node.

    Raises:
        ValueError: the record could not be read back, so it must not be written.
    """
    data = encode_fields(
        {
            "bases": {_account_text(account): base for account, base in record.bases.items()},
            "claimed": sorted(map(_account_text, record.claimed)),
        }
    )
    decode_escrow(validate_name(record.group), data, record.generation, record.version)
    return data


def decode_escrow(group: str, data: bytes, generation: int, version: int) -> EscrowRecord:
    """Read the document of a strict group's escrow record.

    Raises:
        DocumentError: the document is broken, newer than this code, or its bases do not add up.
    """
    fields = decode_fields(data)
    bases, claimed = fields.get("bases"), fields.get("claimed")
    if not isinstance(bases, dict) or not isinstance(claimed, list):
        raise DocumentError(
            "an escrow record has an object of bases and a list of claimed accounts"
        )
    record = EscrowRecord(
        group,
        generation,
        version,
        {_account(text): _parts(parts) for text, parts in bases.items()},
        frozenset(map(_account, claimed)),
    )
    if (sum_ := total(record.bases.values())) != (TOTAL,) * len(NOTHING):
        raise DocumentError(
            f"the bases of an escrow record must add up to {TOTAL} each, found {sum_}"
        )
    return record


class MemberDocument(NamedTuple):
    """The statements of a registered sidecar about itself.

    Args:
        api_address: the address of its admin API.
        report_key: the key that verifies its reports; without one, none is believed.
        host: the name of its machine; empty if it is not told.
    """

    api_address: str
    report_key: bytes = b""
    host: str = ""


def encode_member(member: MemberDocument, version: str) -> bytes:
    """Encode a registered sidecar, and its release."""
    fields = {"apiAddress": member.api_address, "version": version}
    key = {"reportKey": member.report_key.hex()} if member.report_key else {}
    host = {"host": member.host} if member.host else {}
    return encode_fields(fields | key | host)


def decode_member(data: bytes) -> MemberDocument:
    """Read a member's document.

    Raises:
        DocumentError: the document is broken or newer than this code.
    """
    fields = decode_fields(data)
    key = fields.get("reportKey", "")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise DocumentError(f"reportKey must be a public key in hexadecimal, found {key!r:.80}")
    host = text_of({"host": "", **fields}, "host")
    return MemberDocument(text_of(fields, "apiAddress"), bytes.fromhex(key), host)


def encode_fields(fields: Mapping[str, Any], schema: int = SCHEMA) -> bytes:
    """Encode a document with these fields."""
    document = {"schema": schema, **fields}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def json_object(data: bytes) -> dict[str, Any]:
    """Return the fields of a JSON object; raise DocumentError if it is none."""
    try:
        text = data.decode()
        document = json.loads(text)
        if _ESCAPE in text:  # of half a surrogate pair: json takes it, and no answer could show it
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # a megabyte of "[" is deeper than the stack
        raise DocumentError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DocumentError("not a JSON object")
    return document


def decode_fields(data: bytes, newest: int = SCHEMA) -> dict[str, Any]:
    """Decode the fields of a document of a schema up to the newest, unchecked.

    Raises:
        DocumentError: the bytes are no document, or newer than this code.
    """
    document = json_object(data)
    schema = document.get("schema")
    if type(schema) is not int or schema < 1:
        raise DocumentError(f"schema must be a positive integer, found {schema!r:.80}")
    if schema > newest:
        raise DocumentError(f"schema {schema} is newer than {newest}, the newest known here")
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


def _rates_fields(rates: AnyRates) -> dict[str, Any]:
    return {d.value: exact_to_wire(rates.of(d)) for d in Dimension}


def _rates(fields: dict[str, Any]) -> Rates:
    return Rates.from_mapping({d: _rate(fields, d.value) for d in Dimension})


def _limit(fields: dict[str, Any], dimension: Dimension) -> Rate | None:
    """Read a group's limit; one of messages may have a fraction."""
    sent = fields.get(dimension.value)
    if type(sent) is not float or dimension.unit is Unit.BYTES:
        return _rate(fields, dimension.value)
    rate = rate_of(sent)
    if not isinstance(rate, Fraction) or not 0 < rate <= MAX_RATE:
        raise DocumentError(
            f"{dimension.value} must be an integer, or above 0 with three decimals, found {sent!r:.80}"
        )
    return rate


def _rate(fields: dict[str, Any], key: str) -> int | None:
    return from_wire(_whole(fields, key, UNLIMITED, UNLIMITED, MAX_RATE))


def _whole(fields: dict[str, Any], key: str, default: int, least: int, most: int) -> int:
    number = fields.get(key, default)
    # bool is an int to Python, and 1.0 is not a count.
    if type(number) is not int or not least <= number <= most:
        raise DocumentError(
            f"{key} must be an integer from {least} to {most}, found {number!r:.80}"
        )
    return number


def _choice(fields: dict[str, Any], key: str, default: str, known: tuple[str, ...]) -> str:
    chosen = fields.get(key, default)
    if not isinstance(chosen, str) or chosen not in known:
        raise DocumentError(f"{key} must be one of {', '.join(known)}, found {chosen!r:.80}")
    return chosen


def text_of(fields: dict[str, Any], key: str) -> str:
    """Return a text of a document; raise DocumentError where there is none."""
    text = fields.get(key)
    if not isinstance(text, str):
        raise DocumentError(f"{key} must be a string, found {text!r:.80}")
    return text


def _name(text: str) -> str:
    try:
        return validate_name(text)
    except ValueError as error:
        raise DocumentError(str(error)) from error

"""Entries on Pulsar's own topic of resource usage, in Pulsar's own form (PIP-82).

Any process may write there: bytes that are no ResourceUsageInfo, or that name no broker, raise
``BadReport``. Fields of later Pulsars are skipped, as are the additional fields of our own reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from coordinator.native.engine.entries import NOTHING, Amounts
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.fields import BadReport

SIDECAR: Final = "pulsar-quota"
"""The property of a message that names the sidecar which wrote it."""

STANDS_IN: Final = "pulsar-quota-stands-in"
"""The property of a message that is not of the writer's own broker."""

HAS_GATE: Final = "pulsar-quota-gate"
"""The property of a message whose sidecar has a gate, too."""

_AMOUNT_MAX: Final = 2**63 - 1
_NAME_MAX: Final = 512
_GROUPS_MAX: Final = 100_000


def encode(broker: str, amounts: Mapping[str, Amounts]) -> bytes:
    """Encode a broker's publishes of an interval, by native group; dispatch is stated as zero."""
    message = pb.ResourceUsageInfo(broker=broker)
    for group, (messages, size) in amounts.items():
        usage = message.usageMap.add(owner=group)
        usage.publish.messagesPerPeriod = min(messages, _AMOUNT_MAX)
        usage.publish.bytesPerPeriod = min(size, _AMOUNT_MAX)
        usage.dispatch.messagesPerPeriod = usage.dispatch.bytesPerPeriod = 0
    return message.SerializeToString()


class Decoded(NamedTuple):
    """A report of usage.

    Args:
        broker: in whose name it is.
        amounts: publishes by native group, of those groups whose publishes it states.
        named: all its groups.
    """

    broker: str
    amounts: dict[str, Amounts]
    named: frozenset[str]


def decode(payload: bytes) -> Decoded:
    """Decode a report of usage.

    Raises:
        BadReport: the bytes are no such message, or out of bounds.
    """
    message = pb.ResourceUsageInfo()
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise BadReport(f"payload: {error}") from error
    broker = _name("broker", message.broker)
    if len(message.usageMap) > _GROUPS_MAX:
        raise BadReport(f"usageMap: more than {_GROUPS_MAX} groups")
    found: dict[str, Amounts] = {}
    for usage in message.usageMap:
        owner = _name("owner", usage.owner)
        if not usage.HasField("publish"):
            continue
        amounts = Amounts(usage.publish.messagesPerPeriod, usage.publish.bytesPerPeriod)
        # A broker would read such a number as a negative one and ignore the entry.
        found[owner] = amounts if max(amounts) <= _AMOUNT_MAX else NOTHING
    return Decoded(broker, found, frozenset(usage.owner for usage in message.usageMap))


def _name(field: str, value: str | bytes) -> str:
    """Return a name unchanged; raise BadReport for bytes, as a text that is no UTF-8 comes."""
    if not isinstance(value, str):
        raise BadReport(f"{field}: no UTF-8")
    if not 0 < len(value) <= _NAME_MAX:
        raise BadReport(f"{field}: empty or too long")
    return value

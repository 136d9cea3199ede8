"""The answers of the API and of the command about reconciliation: the broker's counts less the gate's."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.insight.model.answer import answer


class EscapedTraffic(NamedTuple):
    """The traffic of one namespace that went round the gate in a time.

    Args:
        namespace: tenant/namespace.
        groups: those that the namespace counts against.
        way: the most likely one.
        messages: published.
        bytes: published.
    """

    namespace: str
    groups: tuple[str, ...]
    way: str
    messages: int
    bytes: int


@answer
class EscapeView:
    """One namespace in which traffic went round the answering sidecar's gate."""

    namespace: str
    escaping: bool
    """whether it goes on"""
    messages_per_second: float
    """now; 0 when it is over"""
    bytes_per_second: float
    uncertainty: float
    """by how many messages per second that may be wrong"""
    messages: int
    """since the sidecar's start"""
    bytes: int
    replicated_messages: int
    """of named peers' replication, which is exempt"""
    way: str
    """the most likely one: direct, proxy, inside-broker, functions, geo-replication or unseen"""
    sentence: str
    fix: str


@answer
class StrandedView:
    """A client that lookups lead to the answering sidecar's gate, and that does not come."""

    host: str
    topic: str
    lookups: int
    """since it opened the topic last"""
    sentence: str
    fix: str


@answer
class UncountedView:
    """A namespace with topics that the broker does not count readably."""

    namespace: str
    sentence: str
    fix: str


@answer
class ReconciliationView:
    """Reconciliation at the answering sidecar."""

    on: bool
    """whether counters are compared; not without a gate"""
    interval_seconds: float
    """from one reading to the next"""
    readings: int
    error: str
    """why the last reading failed; empty: it did not"""
    namespaces: int
    """those that are compared"""
    left_out: int
    """those that are not, as there are too many"""
    charges: bool
    """whether escaped traffic counts against groups"""
    escapes: tuple[EscapeView, ...]
    """the largest rate first"""
    other_messages: int
    """escaped in further namespaces"""
    uncounted: tuple[UncountedView, ...]
    """namespaces with topics that cannot be compared, a hundred at most"""
    stranded: tuple[StrandedView, ...]
    """clients that do not reach the gate, some of them"""

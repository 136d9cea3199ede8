"""The answers of the API and of the command about reconciliation: the broker's counts less the gate's."""

from __future__ import annotations

from coordinator.insight.model.answer import answer


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
    """the most likely one: direct, inside-broker, functions, geo-replication or unseen"""
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

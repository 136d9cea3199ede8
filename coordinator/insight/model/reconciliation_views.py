"""The answers of the API and of the command about reconciliation: the broker's counts less the gate's."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.core.answer import answer
from coordinator.core.model import MonitoringClass


class EscapedTraffic(NamedTuple):
    """The traffic of one namespace and class that went round the gate in a time.

    Args:
        namespace: tenant/namespace.
        groups: those that the namespace counts against.
        monitoring_class: its class.
        messages: their number, as far as clients' claims let it be known.
        bytes: of headers and payload.
    """

    namespace: str
    groups: tuple[str, ...]
    monitoring_class: MonitoringClass
    messages: int
    bytes: int


@answer
class EscapeView:
    """One namespace and class in which traffic went round the answering sidecar's gate."""

    namespace: str
    """tenant/namespace; (bus topics): of the coordinators themselves; (others): all further ones"""
    monitoring_class: MonitoringClass
    escaping: bool
    """whether it goes on, at 1,000 bytes per second or more; not said of (bus topics)"""
    messages_per_second: float
    """now; 0 when it is over"""
    bytes_per_second: float
    messages: int
    """since the sidecar's start, as far as clients' claims let it be known"""
    bytes: int
    sentence: str
    fix: str


@answer
class UncountedView:
    """A namespace with topics or subscriptions that the broker does not count readably."""

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
    reconciled: int
    """accounts that are compared, one for each namespace and class"""
    left_out: int
    """those that are not, as there are too many"""
    escapes: tuple[EscapeView, ...]
    """the largest rate first"""
    uncounted: tuple[UncountedView, ...]
    """namespaces with topics or subscriptions that cannot be compared, a hundred at most"""


NOT_RECONCILED = ReconciliationView(
    on=False,
    interval_seconds=0.0,
    readings=0,
    error="",
    reconciled=0,
    left_out=0,
    escapes=(),
    uncounted=(),
)
"""The answer of a sidecar without a gate."""

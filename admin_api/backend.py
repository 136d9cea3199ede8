"""What the admin API needs of the sidecar around it.

Three things, because they answer differently. The *store* and the *broker* are asked over the network:
they may refuse or not answer at all. The *views* are this sidecar's own memory: they answer at once
and never fail, but may be older than the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from coordinator.core.model import Dimension
from coordinator.core.views import Explanation, GroupView, HealthView
from coordinator.ports import BrokerAdmin, Catalogue, GroupStore


class Views(Protocol):
    """What this sidecar knows right now; called on the event loop's thread."""

    def health(self) -> HealthView:
        """How this sidecar is, and whom it knows."""
        ...

    def group_views(self) -> tuple[GroupView, ...]:
        """Every group with the brokers that take part in it."""
        ...

    def explain(self, group: str, dimension: Dimension, broker: str | None) -> Explanation:
        """Why a broker's local limit is what it is; no broker means this sidecar's own.

        Raises:
            UnknownGroup: there is no such group (from coordinator.core.explain, as the next one).
            UnknownBroker: there is no such member.
        """
        ...

    def catalogue(self) -> Catalogue:
        """The last copy of the store that arrived here."""
        ...


@dataclass(frozen=True, slots=True)
class AdminBackend:
    """Everything that `create_app` is given."""

    store: GroupStore
    broker: BrokerAdmin
    views: Views

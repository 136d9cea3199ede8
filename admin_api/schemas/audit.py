"""The JSON of the audit trail; units and -1 as in `definitions`."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from admin_api.schemas.definitions import CamelModel, GuaranteesBody, HandlingBody, RatesBody
from coordinator.core.model import Rates, ResourceGroup
from coordinator.ports import AuditEntry


class DefinitionState(HandlingBody, GuaranteesBody, RatesBody):
    """A definition as it was."""

    law: str
    weights: str
    overshoot_policy: str
    partition_policy: str
    enforcement: str
    observes: str
    parent: str
    weight: int
    allowed_tenants: tuple[str, ...]


class AuditBody(CamelModel):
    """One change of a definition, an attachment or a topic's limits."""

    id: int
    at_millis: int = Field(description="since 1970, by ZooKeeper's clock")
    actor: str = Field(description="the token's role, or anonymous")
    address: str = Field(description="the host that it came from")
    undoes: int | None = Field(description="the entry that it rolls back")
    subject: str = Field(
        description="groups/G, tenants/T, namespaces/T/N or topics/DOMAIN://T/N/TOPIC"
    )
    before: DefinitionState | RatesBody | str | None = Field(
        description="a definition, a topic's limits, or the name of the group that was attached to; "
        "null = nothing"
    )
    after: DefinitionState | RatesBody | str | None

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        """Write one entry."""
        return cls(
            id=entry.id,
            at_millis=entry.at_ms,
            actor=entry.origin.actor,
            address=entry.origin.address,
            undoes=entry.origin.undoes,
            subject=entry.subject,
            before=_state(entry.before),
            after=_state(entry.after),
        )


def _state(
    state: ResourceGroup | Rates | str | None,
) -> DefinitionState | RatesBody | str | None:
    if isinstance(state, Rates):
        return RatesBody.limits(state)
    if not isinstance(state, ResourceGroup):
        return state
    return DefinitionState(
        **RatesBody.limits(state.exact_limits).model_dump(),
        law=state.law,
        weights=state.weights,
        overshoot_policy=state.overshoot_policy,
        partition_policy=state.partition_policy,
        enforcement=state.enforcement,
        observes=state.observes,
        parent=state.parent,
        weight=state.weight,
        allowed_tenants=state.allowed_tenants,
        **GuaranteesBody.fields_of(state),
        **HandlingBody.fields_of(state),
    )

"""The JSON of reconciliation: the broker's counts less the gate's."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from admin_api.schemas import CamelModel
from coordinator.reconciliation.engine.reconciliation import EscapeView, ReconciliationState


class EscapeBody(CamelModel):
    """One namespace in which traffic went round the answering sidecar's gate."""

    namespace: str
    escaping: bool = Field(description="whether it goes on")
    messages_per_second: float = Field(description="now; 0 when it is over")
    bytes_per_second: float
    uncertainty: float = Field(description="by how many messages per second that may be wrong")
    messages: int = Field(description="since the sidecar's start")
    bytes: int
    replicated_messages: int = Field(description="of named peers' replication, which is exempt")
    way: str = Field(
        description="the most likely one: direct, inside-broker, functions, geo-replication or unseen"
    )
    sentence: str
    fix: str

    @classmethod
    def of(cls, view: EscapeView) -> Self:
        """Write one namespace."""
        return cls(
            namespace=view.namespace,
            escaping=view.is_escaping,
            messages_per_second=round(view.rate.messages, 1),
            bytes_per_second=round(view.rate.bytes, 1),
            uncertainty=round(view.rate.uncertainty, 1),
            messages=view.total.messages,
            bytes=view.total.bytes,
            replicated_messages=view.replicated.messages,
            way=view.finding.way.value,
            sentence=view.sentence,
            fix=view.finding.way.fix,
        )


class ReconciliationBody(CamelModel):
    """Reconciliation at the answering sidecar."""

    on: bool = Field(description="whether counters are compared; not without a gate")
    interval_seconds: float = Field(description="from one reading to the next")
    readings: int
    error: str = Field(description="why the last reading failed; empty: it did not")
    namespaces: int = Field(description="those that are compared")
    left_out: int = Field(description="those that are not, as there are too many")
    charges: bool = Field(description="whether escaped traffic counts against groups")
    escapes: list[EscapeBody] = Field(description="the largest rate first")
    other_messages: int = Field(description="escaped in further namespaces")

    @classmethod
    def of(cls, state: ReconciliationState) -> Self:
        """Write the state."""
        return cls(
            on=state.is_on,
            interval_seconds=state.interval_s,
            readings=state.readings,
            error=state.error,
            namespaces=state.reconciled,
            left_out=state.left_out,
            charges=state.charges,
            escapes=[EscapeBody.of(view) for view in state.escapes],
            other_messages=state.others.messages,
        )

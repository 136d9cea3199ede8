"""The JSON of the cluster's specification."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Self

from pydantic import Field

from admin_api.schemas.definitions import CamelModel, RequestBody
from admin_api.schemas.numbers import ByteRate, MessageRate
from coordinator.core.model import Dimension, Rates
from coordinator.insight.model.answer import from_wire, to_wire
from coordinator.insight.model.specification import WHOLE, Advice, Specification, delayed_advice


class SpecificationPatch(RequestBody):
    """A cluster's limits, production and consumption together, per second; -1 = not limited."""

    rate_in_msgs: MessageRate = Field(default=None, description="messages/s")
    rate_in_bytes: ByteRate = Field(default=None, description="bytes/s")
    production_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    delayed_rate_in_msgs: MessageRate = Field(
        default=None, description="delayed messages/s, beside the rest; absent = as it was"
    )

    def specification(self) -> Specification:
        """Return the specification as the core has it."""
        return Specification(
            None if self.rate_in_msgs is None else from_wire(self.rate_in_msgs),
            None if self.rate_in_bytes is None else from_wire(self.rate_in_bytes),
            round(self.production_share * WHOLE),
        )


class Delayed(NamedTuple):
    """Delayed messages of the whole cluster, per second; no limit is None."""

    limit: int | None
    used: int


class AdviceBody(CamelModel):
    """A limit of which more than four fifths is used."""

    dimension: str
    used: int
    limit: int
    enough: int = Field(description="the specification of its unit at which four fifths would be")
    sentence: str

    @classmethod
    def of(cls, found: Advice) -> Self:
        """Write one piece of advice."""
        return cls(
            dimension=found.dimension.value,
            used=found.used,
            limit=found.limit,
            enough=found.enough,
            sentence=found.sentence,
        )


class SpecificationBody(CamelModel):
    """The cluster's specification, the used part of it, and advice.

    A message is delayed when its deliver_at_time is set, to any value.
    """

    group: str = Field(description="the resource group whose limits it is")
    rate_in_msgs: int = Field(description="production and consumption together; -1 = not limited")
    rate_in_bytes: int = Field(description="the same in bytes")
    production_share: float
    limits: dict[str, int] = Field(description="of the group; -1 = not limited")
    used: dict[str, int] = Field(description="by all brokers, per second")
    advice: list[AdviceBody]
    delayed_rate_in_msgs: int | None = Field(
        description="delayed messages/s; -1 = not limited; null = they are not counted apart"
    )
    delayed_used: int = Field(description="delayed messages by all brokers, per second")
    delayed_advice: str

    @classmethod
    def of(
        cls,
        group: str,
        limits: Rates,
        used: Rates,
        found: tuple[Advice, ...],
        delayed: Delayed | None,
    ) -> Self:
        """Write the specification."""
        specification = Specification.of(limits)
        return cls(
            group=group,
            rate_in_msgs=to_wire(specification.messages),
            rate_in_bytes=to_wire(specification.bytes),
            production_share=specification.production_permille / WHOLE,
            limits={dimension.value: to_wire(limits.of(dimension)) for dimension in Dimension},
            used={dimension.value: used.of(dimension) or 0 for dimension in Dimension},
            advice=[AdviceBody.of(each) for each in found],
            delayed_rate_in_msgs=None if delayed is None else to_wire(delayed.limit),
            delayed_used=0 if delayed is None else delayed.used,
            delayed_advice="" if delayed is None else delayed_advice(delayed.limit, delayed.used),
        )

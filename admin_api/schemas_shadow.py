"""The JSON of two laws side by side."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from admin_api.schemas import CamelModel
from coordinator.insight.model.shadow import Comparison


class ShadowOfBroker(CamelModel):
    """One broker's entitlement under both laws."""

    broker: str
    now: int = Field(description="under the law in force, per second")
    then: int = Field(description="under the candidate, per second")


class ShadowBody(CamelModel):
    """The result of a candidate law on the facts of this moment; none of it is enforced."""

    group: str
    dimension: str
    law: str = Field(description="in force")
    candidate: str
    limit: int = Field(description="for the cluster, per second")
    moved: int = Field(description="what would be with others, or not be handed out, per second")
    brokers: list[ShadowOfBroker] = Field(description="all that take part")
    sentence: str = Field(description="the same in words, for one broker")

    @classmethod
    def of(cls, found: Comparison, broker: str) -> Self:
        """Write one comparison, with the words for one broker."""
        return cls(
            group=found.group,
            dimension=found.dimension.value,
            law=found.law,
            candidate=found.candidate,
            limit=found.limit,
            moved=found.moved,
            brokers=[
                ShadowOfBroker(broker=each.broker, now=each.now, then=each.then)
                for each in found.brokers
            ],
            sentence=found.sentence(broker),
        )

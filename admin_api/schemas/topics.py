"""The JSON of topics' limits, as Pulsar's REST for topic policies has it.

Pulsar says "throttling rate" for our "limit", and its fields differ from those of resource groups. A
body replaces both of its rates: one that is absent or null is not limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from admin_api.schemas.definitions import RequestBody
from admin_api.schemas.numbers import ByteRate, MessageRate
from coordinator.core.answer import from_wire, to_wire
from coordinator.core.model import Dimension, Rates


def _only(expected: object, why: str) -> BeforeValidator:
    def check(value: object) -> object:
        if value is not None and value != expected:
            raise PydanticCustomError(
                "only", "must be {expected}: {why}", {"expected": str(expected).lower(), "why": why}
            )
        return value

    return BeforeValidator(check)


class TopicRate(RequestBody):
    """Two rates of a topic, messages and bytes per second; -1 = not limited."""

    #: The dimensions of the two, by field.
    rates: ClassVar[Mapping[str, Dimension]]

    @classmethod
    def of(cls, limits: Rates) -> Self:
        """Write these two of a topic's four rates."""
        return cls(**{name: to_wire(limits.of(each)) for name, each in cls.rates.items()})

    def applied_to(self, limits: Rates) -> Rates:
        """Return a topic's rates with these two replaced."""
        sent = {each: getattr(self, name) for name, each in self.rates.items()}
        return replace(
            limits,
            **{
                each.field: None if rate is None else from_wire(rate) for each, rate in sent.items()
            },
        )

    @property
    def is_unlimited(self) -> bool:
        """Whether neither is limited."""
        return self.applied_to(Rates()) == Rates()


class PublishRate(TopicRate):
    """Pulsar's PublishRate."""

    rates: ClassVar[Mapping[str, Dimension]] = {
        "publish_throttling_rate_in_msg": Dimension.PUBLISH_MESSAGES,
        "publish_throttling_rate_in_byte": Dimension.PUBLISH_BYTES,
    }

    publish_throttling_rate_in_msg: MessageRate = Field(None, description="messages/s")
    publish_throttling_rate_in_byte: ByteRate = Field(None, description="bytes/s")


class DispatchRate(TopicRate):
    """Pulsar's DispatchRate, for all subscriptions of the topic together."""

    rates: ClassVar[Mapping[str, Dimension]] = {
        "dispatch_throttling_rate_in_msg": Dimension.DISPATCH_MESSAGES,
        "dispatch_throttling_rate_in_byte": Dimension.DISPATCH_BYTES,
    }

    dispatch_throttling_rate_in_msg: MessageRate = Field(None, description="messages/s")
    dispatch_throttling_rate_in_byte: ByteRate = Field(None, description="bytes/s")
    relative_to_publish_rate: Annotated[
        bool | None, _only(expected=False, why="a limit here is a rate of its own")
    ] = False
    rate_period_in_second: Annotated[
        int | None, _only(expected=1, why="rates here are per second")
    ] = 1

"""The JSON of topics' limits, as Pulsar's REST for topic policies has it.

Pulsar says "throttling rate" for our "limit", and its fields differ from those of resource groups. A
body replaces both of its rates: one that is absent or null is not limited.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, Self

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

    @classmethod
    @abstractmethod
    def of(cls, limits: Rates) -> Self:
        """Write these two of a topic's four rates."""

    @classmethod
    @abstractmethod
    def dimensions(cls) -> tuple[Dimension, Dimension]:
        """Return the dimensions of the two rates."""

    @abstractmethod
    def applied_to(self, limits: Rates) -> Rates:
        """Return a topic's rates with these two replaced."""

    @property
    def is_unlimited(self) -> bool:
        """Whether neither is limited."""
        return self.applied_to(Rates()) == Rates()


class PublishRate(TopicRate):
    """Pulsar's PublishRate."""

    publish_throttling_rate_in_msg: MessageRate = Field(None, description="messages/s")
    publish_throttling_rate_in_byte: ByteRate = Field(None, description="bytes/s")

    @classmethod
    def of(cls, limits: Rates) -> Self:
        """Write the rates of publishing."""
        return cls(
            publish_throttling_rate_in_msg=to_wire(limits.publish_messages),
            publish_throttling_rate_in_byte=to_wire(limits.publish_bytes),
        )

    @classmethod
    def dimensions(cls) -> tuple[Dimension, Dimension]:
        """Return the dimensions of publishing."""
        return Dimension.PUBLISH_MESSAGES, Dimension.PUBLISH_BYTES

    def applied_to(self, limits: Rates) -> Rates:
        """Replace the rates of publishing."""
        return replace(
            limits,
            publish_messages=_limit(self.publish_throttling_rate_in_msg),
            publish_bytes=_limit(self.publish_throttling_rate_in_byte),
        )


class DispatchRate(TopicRate):
    """Pulsar's DispatchRate, for all subscriptions of the topic together."""

    dispatch_throttling_rate_in_msg: MessageRate = Field(None, description="messages/s")
    dispatch_throttling_rate_in_byte: ByteRate = Field(None, description="bytes/s")
    relative_to_publish_rate: Annotated[
        bool | None, _only(expected=False, why="a limit here is a rate of its own")
    ] = False
    rate_period_in_second: Annotated[
        int | None, _only(expected=1, why="rates here are per second")
    ] = 1

    @classmethod
    def of(cls, limits: Rates) -> Self:
        """Write the rates of dispatching."""
        return cls(
            dispatch_throttling_rate_in_msg=to_wire(limits.dispatch_messages),
            dispatch_throttling_rate_in_byte=to_wire(limits.dispatch_bytes),
        )

    @classmethod
    def dimensions(cls) -> tuple[Dimension, Dimension]:
        """Return the dimensions of dispatching."""
        return Dimension.DISPATCH_MESSAGES, Dimension.DISPATCH_BYTES

    def applied_to(self, limits: Rates) -> Rates:
        """Replace the rates of dispatching."""
        return replace(
            limits,
            dispatch_messages=_limit(self.dispatch_throttling_rate_in_msg),
            dispatch_bytes=_limit(self.dispatch_throttling_rate_in_byte),
        )


def _limit(sent: int | None) -> int | None:
    return None if sent is None else from_wire(sent)

"""Pulsar's dispatch rates, of a topic or as a namespace's default, and their form in its admin REST.

Both are the body of ``POST .../dispatchRate``::

    {"dispatchThrottlingRateInMsg": 200, "dispatchThrottlingRateInByte": -1,
     "relativeToPublishRate": false, "ratePeriodInSecond": 1}

Anything below 1 is no limit, so 1 a second is the least rate there is.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from coordinator.native.engine.entries import BYTES_MAX, MESSAGES_MAX, UNLIMITED

LEAST: Final = 1
"""The least rate, in messages or bytes per second."""

_MESSAGES: Final = "dispatchThrottlingRateInMsg"
_BYTES: Final = "dispatchThrottlingRateInByte"
_RELATIVE: Final = "relativeToPublishRate"
_PERIOD: Final = "ratePeriodInSecond"


class TopicDispatchRate(NamedTuple):
    """A dispatch rate per second; None is unlimited."""

    messages: int | None = None
    bytes: int | None = None


NO_RATE: Final = TopicDispatchRate()


def body_of(rate: TopicDispatchRate) -> str:
    """Return a rate as Pulsar's admin REST takes it; empty is none."""
    if rate == NO_RATE:
        return ""
    messages = UNLIMITED if rate.messages is None else max(LEAST, min(rate.messages, MESSAGES_MAX))
    size = UNLIMITED if rate.bytes is None else max(LEAST, min(rate.bytes, BYTES_MAX))
    return json.dumps({_MESSAGES: messages, _BYTES: size, _RELATIVE: False, _PERIOD: 1})


def rate_in(body: str) -> TopicDispatchRate:
    """Return the rate that a body of Pulsar's admin REST stands for; empty is none.

    One that is relative to what is published is taken for none, as it is no bound.

    Raises:
        ValueError: it is no such body.
    """
    if not body:
        return NO_RATE
    try:
        found = json.loads(body)
        period_s = max(1, int(found.get(_PERIOD, 1)))
        rates = (int(found[_MESSAGES]), int(found[_BYTES]))
        is_relative = bool(found.get(_RELATIVE))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{body!r} is no dispatch rate: {error!r}") from error
    if is_relative:
        return NO_RATE
    messages, size = (None if rate < LEAST else max(LEAST, rate // period_s) for rate in rates)
    return TopicDispatchRate(messages, size)


def lower_of(one: TopicDispatchRate, other: TopicDispatchRate) -> TopicDispatchRate:
    """Return what is left if both hold."""
    messages, size = (
        min((rate for rate in pair if rate is not None), default=None)
        for pair in zip(one, other, strict=True)
    )
    return TopicDispatchRate(messages, size)


def higher_of(one: TopicDispatchRate, other: TopicDispatchRate) -> TopicDispatchRate:
    """Return the first rate, raised to the other one where both are limited."""
    messages, size = (
        rate if rate is None or least is None else max(rate, least)
        for rate, least in zip(one, other, strict=True)
    )
    return TopicDispatchRate(messages, size)

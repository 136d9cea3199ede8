"""Pulsar's policies of rates, of a topic or as a namespace's default, and their form in its admin REST.

Each is the body of a request to ``.../dispatchRate``, ``.../replicatorDispatchRate`` or
``.../publishRate``, such as::

    {"dispatchThrottlingRateInMsg": 200, "dispatchThrottlingRateInByte": -1,
     "relativeToPublishRate": false, "ratePeriodInSecond": 1}

Anything below 1 is no limit, so 1 a second is the least rate there is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from coordinator.native.engine.entries import BYTES_MAX, MESSAGES_MAX, UNLIMITED

LEAST: Final = 1
"""The least rate, in messages or bytes per second."""

_RELATIVE: Final = "relativeToPublishRate"
_PERIOD: Final = "ratePeriodInSecond"


class PolicyRate(NamedTuple):
    """A rate per second; None is unlimited."""

    messages: int | None = None
    bytes: int | None = None


NO_RATE: Final = PolicyRate()


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """One of the policies.

    Args:
        path: its name in a request's path.
        messages: its field of messages.
        bytes: its field of bytes.
        further: the values of all other fields.
        kept_as: the property of its topic or namespace that keeps what an operator had set.
    """

    path: str
    messages: str
    bytes: str
    further: Mapping[str, object]
    kept_as: str

    def body_of(self, rate: PolicyRate) -> str:
        """Return a rate as Pulsar's admin REST takes it; empty is none."""
        if rate == NO_RATE:
            return ""
        messages = (
            UNLIMITED if rate.messages is None else max(LEAST, min(rate.messages, MESSAGES_MAX))
        )
        size = UNLIMITED if rate.bytes is None else max(LEAST, min(rate.bytes, BYTES_MAX))
        return json.dumps({self.messages: messages, self.bytes: size, **self.further})

    def rate_in(self, body: str) -> PolicyRate:
        """Return the rate that a body of Pulsar's admin REST stands for; empty is none.

        One that is relative to what is published is taken for none, as it is no bound.

        Raises:
            ValueError: it is no such body.
        """
        if not body:
            return NO_RATE
        try:
            found = json.loads(body)
            json.dumps(
                found, allow_nan=False, ensure_ascii=False
            ).encode()  # or no request holds it
            period_s = max(1, int(found.get(_PERIOD, 1)))
            rates = (int(found[self.messages]), int(found[self.bytes]))
            is_relative = bool(found.get(_RELATIVE))
        except (
            KeyError, TypeError, AttributeError, OverflowError, RecursionError,
        ) as error:  # fmt: skip
            raise ValueError(f"{body!r:.200} is no {self.path}: {error!r}") from error
        if is_relative:
            return NO_RATE
        messages, size = (None if rate < LEAST else max(LEAST, rate // period_s) for rate in rates)
        return PolicyRate(messages, size)


DISPATCH: Final = RatePolicy(
    path="dispatchRate",
    messages="dispatchThrottlingRateInMsg",
    bytes="dispatchThrottlingRateInByte",
    further={_RELATIVE: False, _PERIOD: 1},
    kept_as="pulsar-quota-dispatch-rate",
)
REPLICATION: Final = replace(
    DISPATCH, path="replicatorDispatchRate", kept_as="pulsar-quota-replicator-dispatch-rate"
)
"""Of each remote cluster by itself; it counts a batch as one message."""

PUBLISH: Final = RatePolicy(
    path="publishRate",
    messages="publishThrottlingRateInMsg",
    bytes="publishThrottlingRateInByte",
    further={},
    kept_as="pulsar-quota-publish-rate",
)


def lower_of(one: PolicyRate, other: PolicyRate) -> PolicyRate:
    """Return what is left if both hold."""
    messages, size = (
        min((rate for rate in pair if rate is not None), default=None)
        for pair in zip(one, other, strict=True)
    )
    return PolicyRate(messages, size)


def higher_of(one: PolicyRate, other: PolicyRate) -> PolicyRate:
    """Return the first rate, raised to the other one where both are limited."""
    messages, size = (
        rate if rate is None or least is None else max(rate, least)
        for rate, least in zip(one, other, strict=True)
    )
    return PolicyRate(messages, size)

"""The rates that operators have set for topics and namespaces, kept while sidecars set others.

Each is kept as the text of the request beside its owner (`RatePolicies.keep`), before the first rate is
written over it, and comes back as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import structlog

from coordinator.native.engine.outside import OwnerRates, RatePolicies
from coordinator.native.engine.rate_policy import NO_RATE, PolicyRate, RatePolicy, lower_of
from coordinator.ports import NotFound, Refused

AT_ONCE: Final = 8
"""Requests that are under way together."""

NOTHING_SET: Final = "none"
"""Kept beside an owner for which an operator has set no rate."""

_TEXT_MAX: Final = 200

_T = TypeVar("_T")
_R = TypeVar("_R")

log = structlog.get_logger(__name__)


class FoundRate(NamedTuple):
    """An owner's rate, as it was found.

    Args:
        body: the present one, as the broker wrote it; empty is none.
        present: the same, understood.
        kept: what is kept beside the owner; None: no sidecar has replaced its rate.
        by_operator: the rate that an operator has set for it, or for all of its kind.
    """

    body: str
    present: PolicyRate
    kept: str | None
    by_operator: PolicyRate


async def find(policies: OwnerRates, owner: str) -> FoundRate:
    """Read an owner's rate, and then what is kept of it.

    In this order the rate of another sidecar, which keeps the operator's first, is not taken for one.

    Raises:
        NotFound: there is no such owner.
        PortError: the broker does not answer, or does not allow it.
    """
    body, kept = await policies.rate(owner), await policies.kept(owner)
    present = rate_of(policies.policy, body)
    by_operator = (
        present if kept is None else rate_of(policies.policy, former(policies.policy, kept))
    )
    if by_operator == NO_RATE:
        by_operator = rate_of(policies.policy, await policies.default(owner))
    return FoundRate(body, present, kept, by_operator)


async def give_back(policies: OwnerRates, owner: str, limit: PolicyRate = NO_RATE) -> bool:
    """Give an owner the rate back that an operator had set; tell whether a sidecar's is gone.

    Args:
        policies: where.
        owner: a topic, a subscription or a namespace.
        limit: that an owner has of its own: then it gets that, and what is kept stays.
    """
    kept = await policies.kept(owner)
    if kept is None:
        return False
    body = former(policies.policy, kept)
    if limit != NO_RATE:
        rate = lower_of(limit, rate_of(policies.policy, body))
        await policies.set_rate(owner, policies.policy.body_of(rate))
        return False
    await policies.set_rate(owner, body)
    await policies.keep(owner, None)
    return True


async def give_all_back(
    policies: RatePolicies, namespace: str, limit_of: Callable[[str], PolicyRate]
) -> int:
    """Give a namespace, and then all its topics, their former rates back; return how many.

    In this order none has a floor that nothing would raise any more. What is kept of the namespace goes
    last, as it says that this is not done yet.

    Args:
        policies: where.
        namespace: which one; without anything kept beside it, none of its topics is looked at.
        limit_of: the limit that a topic has of its own.

    Raises:
        PortError: the broker does not answer, or does not allow it; what is left stays to be given back.
    """
    kept = await policies.kept(namespace)
    if kept is None:
        return 0
    await policies.set_rate(namespace, former(policies.policy, kept))
    given = await give_topics_back(policies, namespace, limit_of)
    await policies.keep(namespace, None)
    return 1 + given


async def give_topics_back(
    policies: RatePolicies, namespace: str, limit_of: Callable[[str], PolicyRate]
) -> int:
    """Give all topics of a namespace their former rates back; arguments as `give_all_back`."""

    async def give(topic: str) -> bool:
        return await give_back(policies, topic, limit_of(topic))

    return sum(await at_once(give, await policies.topics(namespace)))


async def give_subscriptions_back(policies: RatePolicies, namespace: str) -> int:
    """Give all subscriptions of a namespace's topics their former rates back; return how many."""

    async def give(topic: str) -> int:
        given = [await give_back(policies, each) for each in await policies.subscriptions(topic)]
        return sum(given)

    return sum(await at_once(give, await policies.topics(namespace)))


async def at_once(call: Callable[[_T], Awaitable[_R]], items: Sequence[_T]) -> list[_R]:
    """Call for all items, some at a time; an owner that is gone is no failure.

    Raises:
        Refused, ValueError: of some owner, the first; all others were called for, as clients choose names
            that brokers refuse.
        PortError: the broker does not answer; not all were called for.
    """
    done: list[_R] = []
    refusal: Refused | ValueError | None = None
    for first in range(0, len(items), AT_ONCE):
        calls = map(call, items[first : first + AT_ONCE])
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if not isinstance(answer, BaseException):
                done.append(answer)
            elif not isinstance(answer, Refused | ValueError):
                raise answer
            elif not isinstance(answer, NotFound):
                refusal = refusal or answer
    if refusal is not None:
        raise refusal
    return done


def rate_of(policy: RatePolicy, body: str) -> PolicyRate:
    """Return the rate that a body stands for; one that is not understood bounds nothing."""
    try:
        return policy.rate_in(body)
    except ValueError:
        return NO_RATE


def former(policy: RatePolicy, kept: str) -> str:
    """Return what an operator had set, from what is kept of it; nothing if that is not understood."""
    if kept == NOTHING_SET:
        return ""
    try:
        policy.rate_in(kept)
    except ValueError:
        log.warning("what was kept is no rate", policy=policy.path, kept=kept[:_TEXT_MAX])
        return ""
    return kept

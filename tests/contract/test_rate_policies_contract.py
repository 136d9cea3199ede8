"""Rates of all policies are read, set and kept: one suite for memory and for a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from coordinator.adapters.broker.rate_policies import HttpRatePolicies
from coordinator.native.engine.outside import RatePolicies
from coordinator.native.engine.owners import owner_of
from coordinator.native.engine.rate_policy import (
    DISPATCH,
    NO_RATE,
    PUBLISH,
    REPLICATION,
    PolicyRate,
    RatePolicy,
)
from coordinator.ports import NotFound
from deploy.local.state import Broker
from deploy.local.topics import Topics, path_of
from tests.memory.native import MemoryRatePolicies

BACKENDS = ["memory", pytest.param("pulsar", marks=pytest.mark.cluster)]
NAMESPACE = f"dispatch-contract/n-{uuid.uuid4().hex[:8]}"
SINGLE = f"persistent://{NAMESPACE}/single #1 ä?"
PARTED = f"persistent://{NAMESPACE}/parted"
OWNERS = [NAMESPACE, SINGLE, PARTED]
RATE = PolicyRate(200, 2**40)


@pytest.fixture(params=[DISPATCH, PUBLISH, REPLICATION], ids=lambda policy: policy.path)
def policy(request: pytest.FixtureRequest) -> RatePolicy:
    """Each of the policies."""
    found: RatePolicy = request.param
    return found


@pytest.fixture(params=BACKENDS)
async def policies(
    request: pytest.FixtureRequest, policy: RatePolicy
) -> AsyncIterator[RatePolicies]:
    """A namespace with a topic, whose name has letters of all kinds, and a partitioned one."""
    if request.param == "memory":
        partitions = (f"{PARTED}-partition-{number}" for number in range(2))
        yield MemoryRatePolicies(*OWNERS, *partitions, policy=policy)
        return
    broker: Broker = request.getfixturevalue("pulsar_broker")
    topics = Topics([broker])
    topics.create_tenant(NAMESPACE.partition("/")[0])
    topics.create_namespace(NAMESPACE, 4)
    async with HttpRatePolicies(broker.web_url, policy) as real:
        if not await real.topics(NAMESPACE):
            topics.create_topic(quote(SINGLE, safe=":/"))
            topics.ask("PUT", f"/admin/v2/{path_of(PARTED)}/partitions", 2)
        yield real


@pytest.mark.parametrize("owner", OWNERS, ids=("namespace", "single", "partitioned"))
async def test_a_rate_is_set_changed_and_removed(policies: RatePolicies, owner: str) -> None:
    """Without one there is none; a second removal changes nothing."""
    assert await policies.rate(owner) == ""
    policy = policies.policy
    for body in (policy.body_of(RATE), policy.body_of(PolicyRate(None, 7))):
        await policies.set_rate(owner, body)
        assert json.loads(await policies.rate(owner)) == json.loads(body)
    assert policy.rate_in(await policies.rate(owner)) == PolicyRate(None, 7)
    for _ in range(2):
        await policies.set_rate(owner, "")
        assert await policies.rate(owner) == ""


@pytest.mark.parametrize("owner", OWNERS, ids=("namespace", "single", "partitioned"))
async def test_a_text_is_kept_beside_its_owner(policies: RatePolicies, owner: str) -> None:
    """It may hold any characters; a second removal changes nothing."""
    assert await policies.kept(owner) is None
    for text in ("none", policies.policy.body_of(RATE), 'a "quoted" one'):
        await policies.keep(owner, text)
        assert await policies.kept(owner) == text
    for _ in range(2):
        await policies.keep(owner, None)
        assert await policies.kept(owner) is None


@pytest.mark.parametrize("topic", [SINGLE, PARTED], ids=("single", "partitioned"))
async def test_a_subscription_has_a_rate_and_a_text_of_its_own(
    policies: RatePolicies, topic: str
) -> None:
    """Of dispatch; its topic has neither, and lists those that something is kept of."""
    if policies.policy is not DISPATCH:
        return  # Pulsar has no such policy
    owner = owner_of(topic, "by #1 ä?")
    if isinstance(policies, MemoryRatePolicies):
        policies.owners.add(owner)
    assert await policies.rate(owner) == ""
    assert policies.policy.rate_in(await policies.default(owner)) == NO_RATE
    body = policies.policy.body_of(RATE)
    await policies.set_rate(owner, body)
    await policies.keep(owner, "none")
    assert json.loads(await policies.rate(owner)) == json.loads(body)
    assert (await policies.kept(owner), await policies.kept(topic)) == ("none", None)
    assert await policies.rate(topic) == ""
    assert list(await policies.subscriptions(topic)) == [owner]
    assert await policies.partitions(owner) == await policies.partitions(topic)
    await policies.set_rate(owner, "")
    await policies.keep(owner, None)
    assert await policies.rate(owner) == ""
    assert list(await policies.subscriptions(topic)) == []


async def test_partitions_are_counted(policies: RatePolicies) -> None:
    """Of a topic without any there are none."""
    assert [await policies.partitions(topic) for topic in (SINGLE, PARTED)] == [0, 2]


async def test_topics_are_listed_without_their_partitions(policies: RatePolicies) -> None:
    """The partitioned one once."""
    found = await policies.topics(NAMESPACE)
    assert sorted(each for each in found if "__" not in each) == sorted([SINGLE, PARTED])


@pytest.mark.parametrize(
    "owner",
    [f"persistent://{NAMESPACE}/missing", f"{NAMESPACE.partition('/')[0]}/missing"],
    ids=("topic", "namespace"),
)
async def test_an_owner_that_is_not_there_is_not_found(policies: RatePolicies, owner: str) -> None:
    """Neither its rate, nor its text; and none can be set."""
    with pytest.raises(NotFound):
        await policies.rate(owner)
    with pytest.raises(NotFound):
        await policies.set_rate(owner, policies.policy.body_of(RATE))
    with pytest.raises(NotFound):
        await policies.kept(owner)

"""Dispatch rates are read, set and kept: one suite for memory and for a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from coordinator.adapters.broker.dispatch_policies import HttpDispatchPolicies
from coordinator.native.engine.dispatch_rate import TopicDispatchRate, body_of, rate_in
from coordinator.native.engine.outside import DispatchPolicies
from coordinator.ports import NotFound
from deploy.local.state import Broker
from deploy.local.topics import Topics, path_of
from tests.memory.native import MemoryDispatchPolicies

BACKENDS = ["memory", pytest.param("pulsar", marks=pytest.mark.cluster)]
NAMESPACE = f"dispatch-contract/n-{uuid.uuid4().hex[:8]}"
SINGLE = f"persistent://{NAMESPACE}/single #1 ä?"
PARTED = f"persistent://{NAMESPACE}/parted"
OWNERS = [NAMESPACE, SINGLE, PARTED]
BODY = body_of(TopicDispatchRate(200, 2**40))


@pytest.fixture(params=BACKENDS)
async def policies(request: pytest.FixtureRequest) -> AsyncIterator[DispatchPolicies]:
    """A namespace with a topic, whose name has letters of all kinds, and a partitioned one."""
    if request.param == "memory":
        partitions = (f"{PARTED}-partition-{number}" for number in range(2))
        yield MemoryDispatchPolicies(*OWNERS, *partitions)
        return
    broker: Broker = request.getfixturevalue("pulsar_broker")
    topics = Topics([broker])
    topics.create_tenant(NAMESPACE.partition("/")[0])
    topics.create_namespace(NAMESPACE, 4)
    async with HttpDispatchPolicies(broker.web_url) as real:
        if not await real.topics(NAMESPACE):
            topics.create_topic(quote(SINGLE, safe=":/"))
            topics.ask("PUT", f"/admin/v2/{path_of(PARTED)}/partitions", 2)
        yield real


@pytest.mark.parametrize("owner", OWNERS)
async def test_a_rate_is_set_changed_and_removed(policies: DispatchPolicies, owner: str) -> None:
    """Without one there is none; a second removal changes nothing."""
    assert await policies.rate(owner) == ""
    for body in (BODY, body_of(TopicDispatchRate(None, 7))):
        await policies.set_rate(owner, body)
        assert json.loads(await policies.rate(owner)) == json.loads(body)
    assert rate_in(await policies.rate(owner)) == TopicDispatchRate(None, 7)
    for _ in range(2):
        await policies.set_rate(owner, "")
        assert await policies.rate(owner) == ""


@pytest.mark.parametrize("owner", OWNERS)
async def test_a_text_is_kept_beside_its_owner(policies: DispatchPolicies, owner: str) -> None:
    """It may hold any characters; a second removal changes nothing."""
    assert await policies.kept(owner) is None
    for text in ("none", BODY, 'a "quoted" one'):
        await policies.keep(owner, text)
        assert await policies.kept(owner) == text
    for _ in range(2):
        await policies.keep(owner, None)
        assert await policies.kept(owner) is None


async def test_partitions_are_counted(policies: DispatchPolicies) -> None:
    """Of a topic without any there are none."""
    assert [await policies.partitions(topic) for topic in (SINGLE, PARTED)] == [0, 2]


async def test_topics_are_listed_without_their_partitions(policies: DispatchPolicies) -> None:
    """The partitioned one once."""
    found = await policies.topics(NAMESPACE)
    assert sorted(each for each in found if "__" not in each) == sorted([SINGLE, PARTED])


@pytest.mark.parametrize(
    "owner", [f"persistent://{NAMESPACE}/missing", f"{NAMESPACE.partition('/')[0]}/missing"]
)
async def test_an_owner_that_is_not_there_is_not_found(
    policies: DispatchPolicies, owner: str
) -> None:
    """Neither its rate, nor its text; and none can be set."""
    with pytest.raises(NotFound):
        await policies.rate(owner)
    with pytest.raises(NotFound):
        await policies.set_rate(owner, BODY)
    with pytest.raises(NotFound):
        await policies.kept(owner)

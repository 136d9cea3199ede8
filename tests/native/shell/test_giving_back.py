"""Leaving Pulsar's own resource groups to Pulsar again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from coordinator.core.model import Attachments, Member, Rates, ResourceGroup
from coordinator.native.engine.entries import NOTHING, Amounts, Record
from coordinator.native.engine.outside import TopicPolicies
from coordinator.native.engine.rate_policy import DISPATCH, PUBLISH, REPLICATION, PolicyRate
from coordinator.native.engine.sets import name_of
from coordinator.native.engine.table import REST, Statement
from coordinator.native.shell import giving_back
from coordinator.native.shell.giving_back import GivingBack
from coordinator.ports import BrokerUnreachable, Catalogue, InUse, Refused, Versioned
from tests.memory.native import MemoryEntryTopics, MemoryNativeAdmin, MemoryRatePolicies

A = "persistent://t/n/a"
BOTH = name_of(("g", "all"))


class World:
    """The records that native sidecars leave behind for a group of a namespace and one of its tenant."""

    def __init__(self, cluster_group: str = "") -> None:
        self.admin, self.topics = MemoryNativeAdmin(), MemoryEntryTopics()
        self.admin.records = {
            "g": Record(1_500, -1), "all": Record(-1, 50), BOTH: Record(1_500, 50),
            "theirs": Record(7, 7),
        }  # fmt: skip
        self.admin.groups = {"t/n": BOTH, "t/free": "all", "u/theirs": "theirs"}
        self.heard: list[Statement] = []
        self.topics.watch(self.heard.append)
        self.policies = MemoryRatePolicies("t/n", "t/free", "u/theirs")
        self.publish_rates = MemoryRatePolicies("t/n", "t/free", "u/theirs", A, policy=PUBLISH)
        self.replicator_rates = MemoryRatePolicies(
            "t/n", "t/free", "u/theirs", A, policy=REPLICATION
        )
        policies = TopicPolicies(self.publish_rates, self.policies, self.replicator_rates)
        self.back = GivingBack(self.admin, policies, self.topics.open("off"), cluster_group)
        groups = {
            "g": ResourceGroup("g", Rates(publish_messages=3_000)),
            "all": ResourceGroup("all", Rates(publish_bytes=100)),
        }
        self.back.catalogue_changed(
            Catalogue(
                {name: Versioned(group, 1) for name, group in groups.items()},
                Attachments({"t": "all"}, {"t/n": "g"}),
            )
        )


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_back, "_HEARS_REST_S", 0.0)


async def test_records_go_back_to_the_limits_and_namespaces_to_their_narrowest_group() -> None:
    """Records of several groups are gone, and other people's records stay."""
    world = World()
    world.back.members_changed(())
    done = await world.back.run()

    assert world.admin.records == {
        "g": Record(3_000, -1), "all": Record(-1, 100), "theirs": Record(7, 7),
    }  # fmt: skip
    assert world.admin.groups == {"t/n": "g", "t/free": "all", "u/theirs": "theirs"}
    assert "t/n attached to g alone" in done
    assert f"{BOTH} removed" in done


@pytest.mark.parametrize("now", [Attachments(), Attachments({}, {"t/n": "new", "t/free": "all"})])
async def test_groups_of_attachments_that_changed_while_no_sidecar_ran_are_gone_too(
    now: Attachments,
) -> None:
    """A namespace leaves them for its group of now, if Pulsar has that; else for none."""
    world, other = World(), name_of(("old", "all"))
    world.admin.records[other] = Record(9, 9)
    world.admin.groups["t/free"] = other
    groups = {name: ResourceGroup(name, Rates()) for name in ("g", "all", "new")}
    world.back.catalogue_changed(
        Catalogue({name: Versioned(group, 1) for name, group in groups.items()}, now)
    )
    world.back.members_changed(())
    done = await world.back.run()

    assert world.admin.records.keys() == {"g", "all", "theirs"}
    free = now.namespaces.get("t/free", "")
    assert world.admin.groups == {"t/n": "", "t/free": free, "u/theirs": "theirs"}
    assert {"t/n detached", f"{BOTH} removed", f"{other} removed"} <= set(done)


async def test_a_group_that_is_named_as_if_it_stood_for_others_keeps_its_record() -> None:
    """The namespaces in it are steered by another one, and go back to it."""
    world, odd = World(), "all-of=g=all"
    assert odd == BOTH
    steered = name_of((odd,))
    world.admin.records = {odd: Record(7, 7), steered: Record(1_500, 50)}
    world.admin.groups = {"t/n": steered}
    world.back.catalogue_changed(
        Catalogue(
            {odd: Versioned(ResourceGroup(odd, Rates(publish_messages=3_000)), 1)},
            Attachments({}, {"t/n": odd}),
        )
    )
    world.back.members_changed(())
    await world.back.run()

    assert world.admin.groups == {"t/n": odd}
    assert world.admin.records == {odd: Record(3_000, -1)}


async def test_the_rest_is_set_to_nothing_heard_of_or_not() -> None:
    """Lines never expire at brokers, and a rest of a group that is gone would hold others down."""
    world = World()
    world.topics.say(Statement(REST, {"gone": Amounts(9, 9)}, "x", "x"))
    world.back.members_changed(())
    await world.back.run()

    assert world.heard[-1].broker == REST
    assert world.heard[-1].amounts == dict.fromkeys(("g", "all", BOTH, "gone"), NOTHING)


async def test_rates_go_back_to_what_operators_had_set() -> None:
    """Of namespaces that are attached no more, and of topics; others are left as they are."""
    world = World()
    set_by_operator = DISPATCH.body_of(PolicyRate(50))
    world.policies.owners.add(A)
    world.policies.texts = {
        "t/n": "none",
        A: set_by_operator,
        "u/theirs": "none",
    }
    steered = DISPATCH.body_of(PolicyRate(7))
    world.policies.rates = dict.fromkeys([*world.policies.texts, "t/free"], steered)
    world.replicator_rates.texts[A] = set_by_operator
    world.replicator_rates.rates[A] = steered
    world.publish_rates.texts[A] = "none"
    world.publish_rates.rates[A] = PUBLISH.body_of(PolicyRate(7))
    world.back.members_changed(())
    done = await world.back.run()

    assert world.replicator_rates.rates == {A: set_by_operator}
    assert world.replicator_rates.texts == {}
    assert world.policies.rates == {A: set_by_operator, "t/free": steered}
    assert world.policies.texts == world.publish_rates.texts == world.publish_rates.rates == {}
    assert "t/n: 4 rates given back" in done


async def test_a_namespace_that_cannot_be_read_keeps_no_other_from_its_rates() -> None:
    """It is named; the rest is set to 0 all the same."""
    world = World()
    world.policies.texts = {"t/free": "none", "u/theirs": "none"}
    topics = world.policies.topics

    async def fails(namespace: str) -> Sequence[str]:
        if namespace == "t/free":
            raise BrokerUnreachable("500")
        return await topics(namespace)

    world.policies.topics = fails  # type: ignore[method-assign]
    world.back.members_changed(())
    assert "u/theirs: 1 rates given back" in await world.back.run()
    assert world.back.failed == ["t/free: The broker does not answer (500)"]
    assert world.policies.texts == {}
    assert world.heard[-1].broker == REST


async def test_what_is_refused_keeps_nothing_else_from_going_back() -> None:
    """A topic is told, with its namespace, and a name that nothing can have; an old form of name is not.

    A namespace with a cluster in its name counts against no group.
    """
    world = World("g")
    world.admin.groups |= {"t/a b": "", "t/cluster/n": ""}
    world.policies.owners.add(A)
    world.policies.texts = {A: "none"}
    kept = world.publish_rates.kept

    async def refuse(owner: str) -> str | None:
        if owner == A:
            raise Refused("GET /a answered 414")
        return await kept(owner)

    world.publish_rates.kept = refuse  # type: ignore[method-assign]
    world.back.members_changed(())
    done = await world.back.run()
    assert world.admin.groups["t/n"] == "g"
    assert "t/n: 1 rates given back" in done
    assert world.policies.texts == {}
    assert world.back.failed == [
        "t/a b: 'a b' is not a name of a tenant or namespace",
        "t/n: GET /a answered 414",
    ]


async def test_a_topic_that_cannot_be_asked_for_keeps_nothing_else_from_going_back() -> None:
    """It is told, with its namespace; the other policies of the namespace are given back."""
    world = World()
    world.policies.texts = {"t/n": "none"}
    world.replicator_rates.texts = {"t/n": "none"}

    async def odd(namespace: str) -> Sequence[str]:
        return ["no-name"] if namespace == "t/n" else []

    async def kept(owner: str) -> str | None:
        raise ValueError(f"{owner} is not a topic's name")

    world.publish_rates.topics = odd  # type: ignore[method-assign]
    world.publish_rates.kept = kept  # type: ignore[method-assign]
    world.back.members_changed(())
    assert "t/n: 2 rates given back" in await world.back.run()
    assert any(said.startswith("t/n: ") for said in world.back.failed)
    assert world.policies.texts == world.replicator_rates.texts == {}


async def test_a_limit_of_nothing_goes_back_to_the_least_that_pulsar_holds() -> None:
    """It takes 0 for no limit."""
    world = World()
    nothing = ResourceGroup("g", Rates(publish_messages=0, publish_bytes=0))
    world.back.catalogue_changed(Catalogue({"g": Versioned(nothing, 1)}))
    world.back.members_changed(())
    await world.back.run()
    assert world.admin.records["g"] == Record(1, 1)


async def test_twice_changes_nothing_more() -> None:
    """The second time only the rest is written again."""
    world = World()
    world.back.members_changed(())
    await world.back.run()
    assert await world.back.run() == ["the rest set to 0"]


async def test_while_a_sidecar_is_alive_nothing_is_changed() -> None:
    """It would set all of it again; who is alive is named."""
    world = World()
    before = dict(world.admin.records)
    world.back.members_changed((Member("broker-7", 1, ""),))
    with pytest.raises(InUse, match="broker-7"):
        await world.back.run()
    assert world.admin.records == before


async def test_nothing_is_done_before_membership_and_groups_are_known() -> None:
    """Otherwise all groups would count as gone."""
    world = World()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await world.back.run()
    assert world.admin.groups["t/n"] == BOTH

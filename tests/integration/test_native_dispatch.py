"""Dispatch limits held by Pulsar's own dispatch rates: real brokers, real clients, nothing between."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping

import pytest

from coordinator.native.engine.rate_policy import DISPATCH
from deploy.local.topics import path_of
from tests.integration.native_clients import NativeClients, client_of
from tests.integration.native_world import Native, opened
from tests.integration.sliding import WINDOW_S
from tests.integration.world import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

LIMIT, _GUARANTEE = 600, 400
NAMESPACE = "native/sent"
BACKLOG = 30_000
SET = 50
"""A rate that an operator has set, and one that a tenant has."""

HIGH = 100_000


class Sent(NativeClients):
    """A namespace with a limit of dispatch, and its clients."""

    def limit(self, messages: int) -> None:
        """Limit the group to this number per second."""
        self.native.api("PUT", "/admin/v2/resourcegroups/sent", {"dispatchRateInMsgs": messages})

    def comes_to(self, wanted: Mapping[str, float], within: float) -> None:
        """Wait until each topic's consumers are sent messages at this rate."""
        self.rates_come_to(wanted, DISPATCH, within)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """Three brokers, and a native sidecar beside each."""
    with opened(tmp_path_factory.mktemp("native-dispatch")) as world:
        world.topics.create_namespace(NAMESPACE, 12)
        world.api("PUT", "/admin/v2/resourcegroups/sent", {"dispatchRateInMsgs": LIMIT})
        world.api("POST", f"/admin/v2/namespaces/{NAMESPACE}/resourcegroup/sent")
        yield world


@pytest.fixture
def sent(native: Native) -> Iterator[Sent]:
    """The limited namespace."""
    with client_of(native) as client:
        found = Sent(native, client)
        found.limit(LIMIT)
        yield found


def test_a_dispatch_limit_is_shared_by_brokers_and_follows_consumers(sent: Sent) -> None:
    """A joiner gets its third, a changed limit is in force, and what one leaves is free for others."""
    topics = list(
        sent.native.topics.one_for_each_broker(NAMESPACE, "shared", "persistent").values()
    )
    sent.fill(topics, BACKLOG)
    with sent.consumed(*topics[:2]):
        sent.comes_to(dict.fromkeys(topics[:2], LIMIT / 2), within=0.03)
        with sent.consumed(topics[2]):
            sent.comes_to(dict.fromkeys(topics, LIMIT / 3), within=0.03)
            sent.limit(LIMIT // 2)
            sent.comes_to(dict.fromkeys(topics, LIMIT / 6), within=0.03)
        sent.limit(LIMIT)
        sent.comes_to(dict.fromkeys(topics[:2], LIMIT / 2), within=0.03)
    eventually(
        lambda: [sent.policy_of(topic, DISPATCH) for topic in topics] == [None] * 3,
        "no rate is left",
    )


def test_a_backlog_is_drained_without_loss(sent: Sent) -> None:
    """Every message arrives, at the limit, and not sooner."""
    topic = sent.native.topics.one_for_each_broker(NAMESPACE, "drained", "persistent")["broker-2"]
    sent.fill([topic], 6_000)
    began_s = time.monotonic()
    with sent.consumed(topic):
        eventually(lambda: sent.received >= 6_000, "all have arrived")
        took_s = time.monotonic() - began_s
    assert sent.received == 6_000
    assert took_s >= 6_000 / LIMIT * 0.8, took_s


def test_partitions_of_a_topic_and_batches_are_held(sent: Sent) -> None:
    """Six partitions at three brokers have one rate; batches are counted by their messages.

    Pulsar sends a hundred batches of five at once, so a single second shows little.
    """
    topic = f"persistent://{NAMESPACE}/parts"
    sent.native.topics.ask("PUT", f"/admin/v2/{path_of(topic)}/partitions", 6)
    partitions = [f"{topic}-partition-{number}" for number in range(6)]
    sent.fill(partitions, 15_000, batch=5)
    with sent.consumed(topic):
        deadline = time.monotonic() + 90
        seen = [sent.rate(partitions, DISPATCH, 2 * WINDOW_S)]
        while not LIMIT * 0.9 <= seen[-1] <= LIMIT * 1.05 and time.monotonic() < deadline:
            seen.append(sent.rate(partitions, DISPATCH, 2 * WINDOW_S))
        assert LIMIT * 0.9 <= seen[-1] <= LIMIT * 1.05, seen


@pytest.fixture
def depot(sent: Sent) -> Iterator[Sent]:
    """A tree of two groups with a limit of dispatch, each with a namespace."""
    api, groups = sent.native.api, "/admin/v2/resourcegroups"
    api("PUT", f"{groups}/depot", {"dispatchRateInMsgs": LIMIT})
    api("PUT", f"{groups}/bulk", {"parent": "depot"})
    api("PUT", f"{groups}/mail", {"parent": "depot", "dispatchGuaranteeInMsgs": _GUARANTEE})
    for group in ("bulk", "mail"):
        sent.native.topics.create_namespace(f"native/{group}", 12)
        api("POST", f"/admin/v2/namespaces/native/{group}/resourcegroup/{group}")
    yield sent
    for group in ("bulk", "mail"):
        api("DELETE", f"/admin/v2/namespaces/native/{group}/resourcegroup")
        api("DELETE", f"{groups}/{group}")
    api("DELETE", f"{groups}/depot")


def test_an_idle_guarantee_of_dispatch_is_borrowed_and_claimed_back(depot: Sent) -> None:
    """The borrower's two brokers share half of what the guarantee leaves."""
    of_broker = depot.native.topics.one_for_each_broker
    bulk = of_broker("native/bulk", "t", "persistent")
    mail = of_broker("native/mail", "t", "persistent")["broker-3"]
    borrowers = [bulk["broker-1"], bulk["broker-2"]]
    depot.fill([*borrowers, mail], BACKLOG)
    with depot.consumed(*borrowers):
        depot.comes_to(dict.fromkeys(borrowers, LIMIT / 2), within=0.05)
        with depot.consumed(mail):
            claimed = _GUARANTEE + (LIMIT - _GUARANTEE) / 2
            each = (LIMIT - claimed) / 2
            depot.comes_to({mail: claimed, **dict.fromkeys(borrowers, each)}, within=0.05)


def test_a_topic_that_moves_keeps_to_the_limit(sent: Sent) -> None:
    """Its new broker's sidecar goes on from the rate that it finds."""
    topic = sent.native.topics.one_for_each_broker(NAMESPACE, "moved", "persistent")["broker-1"]
    sent.fill([topic], BACKLOG)
    with sent.consumed(topic):
        sent.comes_to({topic: LIMIT}, within=0.03)
        sent.native.topics.move(topic, sent.native.brokers["broker-3"])
        sent.comes_to({topic: LIMIT}, within=0.03)


def test_a_tenant_that_changes_rates_and_texts_gets_no_more(sent: Sent) -> None:
    """A lifted rate is taken down again, and a text that is no rate stops no topic."""
    topics = sent.native.topics.one_for_each_broker(NAMESPACE, "lifted", "persistent")
    lifted, other = topics["broker-1"], topics["broker-2"]
    sent.fill([lifted, other], BACKLOG)
    with sent.consumed(lifted, other):
        sent.comes_to({lifted: LIMIT / 2, other: LIMIT / 2}, within=0.05)
        sent.set_policy(lifted, DISPATCH, HIGH)
        for owner in (NAMESPACE, other):
            sent.spoil_kept(owner, DISPATCH)
        sent.comes_to({lifted: LIMIT / 2, other: LIMIT / 2}, within=0.05)
    eventually(lambda: sent.policy_of(other, DISPATCH) is None, "no rate is left")
    eventually(
        lambda: sent.policy_of(lifted, DISPATCH)[DISPATCH.messages] == HIGH, "the tenant's is back"
    )


def test_what_an_operator_has_set_is_kept_and_comes_back(sent: Sent) -> None:
    """While sidecars steer it is the most that a topic gets; a killed one loses nothing."""
    topics = sent.native.topics.one_for_each_broker(NAMESPACE, "set", "persistent")
    own, other = topics["broker-1"], topics["broker-2"]
    sent.fill([own], BACKLOG // 5)
    sent.fill([other], 3 * BACKLOG)
    sent.set_policy(own, DISPATCH, SET)
    with sent.consumed(own, other):
        sent.comes_to({own: SET, other: LIMIT - SET}, within=0.05)
        sent.native.sidecars.end("broker-1", signal.SIGKILL)
        sent.native.sidecars.end("broker-2", signal.SIGKILL)
        sent.native.sidecars.start("broker-1")
        sent.native.sidecars.start("broker-2")
        sent.comes_to({own: SET, other: LIMIT - SET}, within=0.05)
        sent.native.sidecars.stop()
        try:
            off = sent.native.off()
            assert off.returncode == 0, off.stderr
            assert f"{NAMESPACE}: 3 rates given back" in off.stdout
            assert sent.policy_of(own, DISPATCH)[DISPATCH.messages] == SET
            assert sent.policy_of(other, DISPATCH) is None
            assert sent.policy_of(NAMESPACE, DISPATCH) is None
        finally:
            sent.native.sidecars.start()
    sent.set_policy(own, DISPATCH, -1)

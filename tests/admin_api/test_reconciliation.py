"""The answers and metrics of a sidecar about traffic that goes round its gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.insight.model.answer import read
from coordinator.insight.model.reconciliation_views import ReconciliationView
from coordinator.reconciliation.engine.account import Rate
from coordinator.reconciliation.engine.counting import PublishedCount
from coordinator.reconciliation.engine.reconciliation import Escape, ReconciliationState
from coordinator.reconciliation.engine.ways import ListedPublisher, Way, WayFinding
from tests.admin_api.world import World

ESCAPE = Escape(
    namespace="t/n",
    total=PublishedCount(1_600, 160_000),
    replicated=PublishedCount(),
    is_escaping=True,
    rate=Rate(200.04, 20_004.0, 12.0),
    finding=WayFinding(
        Way.DIRECT, ListedPublisher("persistent://t/n/a", "shop", "10.0.0.9", 4_444)
    ),
)
SENTENCE = (
    "200 messages/s (+-12) of t/n go round the gate, most likely a client at the broker's own port, "
    "or a proxy that leads there: producer shop of 10.0.0.9:4444"
)


@dataclass
class Reconciled:
    """A reconciliation that says what it is told to."""

    said: ReconciliationState

    def state(self) -> ReconciliationState:
        """Return it."""
        return self.said

    def escapes_of(self, group: str) -> tuple[Escape, ...]:
        """Return its namespaces for one group."""
        return self.said.escapes if group == "orders" else ()

    def rates(self) -> Mapping[str, Rate]:
        """Return the rate of one group."""
        return {"orders": ESCAPE.rate}


STATE = ReconciliationState(
    is_on=True,
    interval_s=2.0,
    readings=9,
    reconciled=3,
    escapes=(ESCAPE,),
    others=PublishedCount(7, 70),
)


async def test_what_escapes_is_told_with_its_way_and_its_remedy() -> None:
    """By namespace, at the sidecar that saw it."""
    async with World().client(reconciling=Reconciled(STATE)) as client:
        found = (await client.get("/quota/v1/reconciliation")).json()
    assert found["on"]
    (escape,) = found.pop("escapes")
    assert (escape["namespace"], escape["messagesPerSecond"], escape["messages"]) == (
        "t/n",
        200.0,
        1_600,
    )
    assert escape["way"] == "direct"
    assert escape["sentence"] == SENTENCE
    assert "gates' addresses" in escape["fix"]
    assert found["otherMessages"] == 7


async def test_the_answer_has_these_names_and_the_command_reads_it() -> None:
    """Rates have one digit after the point."""
    async with World().client(reconciling=Reconciled(STATE)) as client:
        found = (await client.get("/quota/v1/reconciliation")).json()
    assert found == {
        "on": True,
        "intervalSeconds": 2.0,
        "readings": 9,
        "error": "",
        "namespaces": 3,
        "leftOut": 0,
        "charges": False,
        "escapes": [
            {
                "namespace": "t/n",
                "escaping": True,
                "messagesPerSecond": 200.0,
                "bytesPerSecond": 20_004.0,
                "uncertainty": 12.0,
                "messages": 1_600,
                "bytes": 160_000,
                "replicatedMessages": 0,
                "way": "direct",
                "sentence": SENTENCE,
                "fix": Way.DIRECT.fix,
            }
        ],
        "otherMessages": 7,
        "uncounted": [],
        "stranded": [],
    }
    assert read(ReconciliationView, found) == STATE.view()


async def test_without_a_gate_nothing_is_compared() -> None:
    """The answer says that it is off."""
    async with World().client() as client:
        found = (await client.get("/quota/v1/reconciliation")).json()
        metrics = (await client.get("/metrics")).text
    assert (found["on"], found["escapes"]) == (False, [])
    assert "escaped" not in metrics


async def test_escaped_traffic_is_a_counter_and_a_rate() -> None:
    """By namespace; further ones are one series."""
    async with World().client(reconciling=Reconciled(STATE)) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    assert 'pulsar_quota_escaped_messages_total{namespace="t/n"} 1600.0' in lines
    assert 'pulsar_quota_escaped_messages_total{namespace="(others)"} 7.0' in lines
    assert 'pulsar_quota_escaped_bytes_total{namespace="t/n"} 160000.0' in lines
    rate = 'pulsar_quota_escaping_messages_per_second{namespace="t/n",way="direct"} 200.04'
    assert rate in lines
    assert "pulsar_quota_reconciliation_failing 0.0" in lines


async def test_a_group_shows_what_escapes_of_its_namespaces() -> None:
    """In the overview, and in the explanation of the own broker's limit of published messages."""
    world = World()
    async with world.client(reconciling=Reconciled(STATE)) as client:
        await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 3_000})
        world.throttle_orders()
        await world.watch.look()
        (row,) = (await client.get("/quota/v1/overview")).json()["rows"]
        own = (await client.get("/quota/v1/explain/orders")).json()
        other = (await client.get("/quota/v1/explain/orders?broker=broker-2")).json()
    assert row["escaping"] == 200
    assert own["roundTheGate"] == [SENTENCE]
    assert other["roundTheGate"] == []

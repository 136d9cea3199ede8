"""The metrics are valid by the official parsers, true, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

import httpx
import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from admin_api.metrics import gate
from admin_api.metrics import scrape as scraping
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import Dimension, MonitoringClass, Rates, Unit
from coordinator.core.traffic import Traffic
from coordinator.core.usage.agreement import Matter
from coordinator.insight.model.gate_views import (
    HOLD_BUCKETS_NS,
    GateLimits,
    GateSlowness,
    HoldView,
    TopicLimitView,
)
from coordinator.insight.model.seconds import MinuteView
from coordinator.insight.model.trees import TreeGroupView, TreeView
from coordinator.insight.model.views import DisagreementView
from coordinator.ports import RecorderHealth
from tests.admin_api.world import World

OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
ORDERS = {"group": "orders", "monitoring_class": "Publish"}


async def scrape(client: httpx.AsyncClient) -> dict[str, Metric]:
    """The families by name, as the official OpenMetrics parser reads them."""
    answer = await client.get("/metrics", headers=OPENMETRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families: Iterable[Metric] = read_openmetrics(answer.text)  # type: ignore[no-untyped-call]
    return {family.name: family for family in families}


def value_of(family: Metric, **labels: str) -> float:
    """The one sample with these labels."""
    (sample,) = [sample for sample in family.samples if sample.labels == labels]
    return sample.value


async def test_openmetrics_and_text_say_the_same(client: httpx.AsyncClient, orders: str) -> None:
    """Both parsers take what was asked for; a tool that says nothing gets the old text."""
    families = await scrape(client)
    answer = await client.get("/metrics", headers={"Accept": "*/*"})

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = {s.name: s.value for f in read_text(answer.text) for s in f.samples if not s.labels}
    for family in families.values():
        for sample in family.samples:
            if not sample.labels:
                assert text[sample.name] == sample.value


async def test_tasks_that_were_started_are_counted(client: httpx.AsyncClient) -> None:
    """A leak of them would show here."""
    before = value_of((await scrape(client))["pulsar_quota_tasks"])
    waiting = [asyncio.create_task(asyncio.sleep(60)) for _ in range(5)]
    try:
        after = value_of((await scrape(client))["pulsar_quota_tasks"])
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)

    assert after == before + 5


async def test_recording_that_fails_is_told(client: httpx.AsyncClient, world: World) -> None:
    """The metric is 1, 0, or absent where recording is off, so no alert fires there."""
    assert not (await scrape(client))["pulsar_quota_recording"].samples

    world.views.recorded = RecorderHealth(recording=True, rows_written=500, bytes_written=9_000)
    families = await scrape(client)
    assert value_of(families["pulsar_quota_recording"]) == 1
    assert value_of(families["pulsar_quota_recorder_rows_written"]) == 500
    assert value_of(families["pulsar_quota_recorder_written_bytes"]) == 9_000

    world.views.recorded = RecorderHealth(
        recording=False, reason="no space left", failures=3, rows_waiting=20, rows_dropped=1
    )
    families = await scrape(client)
    assert value_of(families["pulsar_quota_recording"]) == 0
    assert value_of(families["pulsar_quota_recorder_failures"]) == 3
    assert value_of(families["pulsar_quota_recorder_rows_waiting"]) == 20
    assert value_of(families["pulsar_quota_recorder_rows_dropped"]) == 1


async def test_a_slow_gate_is_told_and_is_not_asked_for_its_figures(
    client: httpx.AsyncClient, world: World
) -> None:
    """A scrape would wait as long as the gate is slow, and be given up by Prometheus."""
    families = await scrape(client)
    assert value_of(families["pulsar_quota_gate_slow_spells"]) == 0
    assert value_of(families["pulsar_quota_gate_slow_seconds"]) == 0
    assert "pulsar_quota_gate_connections" in families

    world.gate.slow = GateSlowness(spells=3, is_slow=True, lasts_ns=2_500_000_000)
    families = await scrape(client)
    assert value_of(families["pulsar_quota_gate_slow_spells"]) == 3
    assert value_of(families["pulsar_quota_gate_slow_seconds"]) == 2.5
    assert "pulsar_quota_gate_connections" not in families


async def test_a_scrape_that_began_before_the_gate_was_slow_leaves_its_figures_out(
    client: httpx.AsyncClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits no longer than until the slowness is known."""

    async def never() -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(scraping, "_GATE_WITHIN_S", 0.01)
    monkeypatch.setattr(world.gate, "figures", never)
    families = await scrape(client)
    assert value_of(families["pulsar_quota_gate_slow_spells"]) == 0
    assert "pulsar_quota_gate_connections" not in families


async def test_every_family_has_help_and_the_right_type(
    client: httpx.AsyncClient, orders: str
) -> None:
    """Counters end in _total, and a name that ends in a unit is in that unit."""
    for name, family in (await scrape(client)).items():
        assert family.documentation.endswith(".") or "1" in family.documentation
        assert name.startswith(("pulsar_quota_", "pulsar_resource_group_"))
        if family.type == "counter":
            assert {s.name for s in family.samples} <= {f"{name}_total"}


async def test_a_group_is_told_in_numbers(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """The own broker's part: limits, demand, counts, how much of the time clients waited."""
    world.throttle_orders()
    counted = Traffic("orders", MonitoringClass.PUBLISH, 7, 700, messages_held_ns=1_500_000_000)
    world.views.counted.add([counted, counted])

    families = await scrape(client)

    def told(name: str) -> float:
        return value_of(families[f"pulsar_quota_{name}"], **ORDERS)

    assert told("cluster_limit_messages_per_second") == 3_000
    assert told("local_limit_messages_per_second") == 1_000
    assert told("demand_messages_per_second") == 1_001
    assert told("admitted_messages") == 14
    assert told("admitted_bytes") == 1_400
    assert told("throttled_messages_seconds") == 3.0
    assert told("throttled_messages_ratio") == 0.0
    assert value_of(families["pulsar_quota_participants"], group="orders") == 3
    assert not families["pulsar_quota_local_limit_bytes_per_second"].samples


async def test_pulsars_names_have_pulsars_labels(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """A rate is a gauge, and its help says that Pulsar has another type."""
    world.throttle_orders()
    families = await scrape(client)

    labels = {
        "ResourceGroup": "orders",
        "MonitoringClass": "Publish",
        "exporter": "pulsar-quota",
    }
    quota = families["pulsar_resource_group_calculated_messages_quota"]
    assert (quota.type, value_of(quota, **labels)) == ("gauge", 1_000)
    assert "counter" in quota.documentation
    used = families["pulsar_resource_group_bytes_used"]
    assert (used.type, value_of(used, **labels)) == ("counter", 0)


async def test_no_series_of_a_name_of_pulsars_has_the_labels_of_the_brokers(
    client: httpx.AsyncClient, orders: str
) -> None:
    """A sum over both would count twice what a label does not tell apart."""
    pulsars = [
        sample
        for name, family in (await scrape(client)).items()
        if not name.startswith("pulsar_quota_")
        for sample in family.samples
    ]

    assert pulsars
    assert all(sample.labels["exporter"] == "pulsar-quota" for sample in pulsars)


async def test_an_unknown_demand_has_no_series(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """A throttled broker wants more than can be known; an infinity would spoil every sum over brokers."""
    world.throttle_orders()
    world.views.turn(broker="broker-2")
    for (group, dimension, _), explained in list(world.views.explanations.items()):
        world.views.explanations[group, dimension, "broker-2"] = explained

    families = await scrape(client)

    assert not families["pulsar_quota_demand_messages_per_second"].samples
    assert value_of(families["pulsar_quota_demand_low_messages_per_second"], **ORDERS) == 1_990


async def test_a_certificate_is_told(client: httpx.AsyncClient, world: World, orders: str) -> None:
    """It is a rate."""
    world.throttle_orders()
    family = (await scrape(client))["pulsar_quota_certificate_messages_per_second"]
    assert value_of(family, **ORDERS) == 3_000


async def test_the_sidecar_is_told_in_numbers(client: httpx.AsyncClient, world: World) -> None:
    """State, degradations, members, reports, ZooKeeper, bus and gate."""
    world.views.turn(
        state=Lifecycle.DEGRADED,
        degradations=(Degradation.BUS_SILENT,),
        ready=False,
        reports_dropped={"old": 3},
        disagreements=(DisagreementView("broker-2", Matter.MEMBERS, 4_500_000_000),),
        announcements_capped={"broker-2": 21},
        foreign_reports={"broker-2": 4},
    )
    families = await scrape(client)

    def told(name: str, **labels: str) -> float:
        return value_of(families[f"pulsar_quota_{name}"], **labels)

    assert told("lifecycle", pulsar_quota_lifecycle="DEGRADED") == 1
    assert told("lifecycle", pulsar_quota_lifecycle="ACTIVE") == 0
    assert told("degradation", pulsar_quota_degradation="BUS_SILENT") == 1
    assert told("degradation", pulsar_quota_degradation="BROKER_DOWN") == 0
    assert (told("ready"), told("members"), told("rounds")) == (0, 2, 812)
    assert told("report_age_seconds", peer="broker-2") == 0.21
    assert told("announcements_capped", peer="broker-2") == 21
    assert told("foreign_reports", peer="broker-2") == 4
    assert told("foreign_reports", peer="broker-1") == 0
    assert told("reports_dropped", reason="old") == 3
    assert told("view_disagreement_seconds", peer="broker-2", matter="members") == 4.5
    assert told("zookeeper", pulsar_quota_zookeeper="CONNECTED") == 1
    assert told("bus_connected", topic="memory") == 1
    assert (told("gate_connections"), told("gate_held_bytes")) == (1, 6)
    assert told("gate_malformed_closes", reason="too long") == 13
    assert told("catalogue_faults") == 0


async def test_holding_back_is_told(client: httpx.AsyncClient, world: World) -> None:
    """A histogram of hold times per limit and class, how often it began, and the gate's own limits."""
    counts = (1, 0, 2, *(0 for _ in HOLD_BUCKETS_NS[3:]), 4)
    times = {Unit.MESSAGES: 5, Unit.BYTES: 0}
    world.gate.held = (
        HoldView("resource group", "orders", MonitoringClass.PUBLISH, counts, 10**9, times),
    )
    topic = TopicLimitView.limits(Rates(dispatch_bytes=7), topic="persistent://a/b/c", partitions=1)
    world.gate.own_limits = GateLimits(Rates(publish_messages=9), None, 30, (topic,))

    families = await scrape(client)

    labels = {"scope": "resource group", "name": "orders", "monitoring_class": "Publish"}
    samples = families["pulsar_quota_hold_seconds"].samples
    buckets = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
    assert len(buckets) == len(HOLD_BUCKETS_NS) + 1
    assert (buckets["0.005"], buckets["0.025"], buckets["30.0"], buckets["+Inf"]) == (1, 3, 3, 7)
    assert {s.value for s in samples if s.name.endswith("_sum")} == {1.0}
    assert value_of(families["pulsar_quota_throttled_messages_times"], **labels) == 5
    assert value_of(families["pulsar_quota_gate_throttles"], reason="resource group") == 16
    (broker,) = families["pulsar_quota_gate_limit_messages_per_second"].samples
    assert (broker.labels["scope"], broker.value) == ("broker limit", 9)
    (of_topic,) = families["pulsar_quota_gate_limit_bytes_per_second"].samples
    assert (of_topic.labels["name"], of_topic.value) == ("persistent://a/b/c", 7)


async def test_topics_beyond_the_bound_are_counted(
    client: httpx.AsyncClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first by name have series, so limits of topics cannot fill Prometheus."""
    monkeypatch.setattr(gate, "MAX_SCOPES", 2)
    limited = Rates(publish_messages=1)
    views = tuple(
        TopicLimitView.limits(limited, topic=name, partitions=1) for name in ("c", "a", "b")
    )
    world.gate.own_limits = GateLimits(Rates(), None, 30, views)

    families = await scrape(client)

    samples = families["pulsar_quota_gate_limit_messages_per_second"].samples
    assert [sample.labels["name"] for sample in samples] == ["a", "b"]
    assert value_of(families["pulsar_quota_gate_topic_limits_left_out"]) == 1


async def test_groups_beyond_the_bound_are_counted(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first by name have series; a metric tells how many have none."""
    monkeypatch.setattr(scraping, "MAX_GROUPS", 2)
    for name in ("c", "a", "b"):
        await client.put(f"/admin/v2/resourcegroups/{name}", json={"publishRateInMsgs": 1})

    families = await scrape(client)

    limits = families["pulsar_quota_cluster_limit_messages_per_second"]
    assert [sample.labels["group"] for sample in limits.samples] == ["a", "b"]
    assert value_of(families["pulsar_quota_groups_left_out"]) == 1
    assert value_of(families["pulsar_quota_groups"]) == 3


async def test_counts_of_a_group_that_is_undecided_are_told(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """Demand has no series until there is a decision; the rest is there."""
    world.views.undecided.add("orders")

    families = await scrape(client)

    assert not families["pulsar_quota_demand_messages_per_second"].samples
    assert value_of(families["pulsar_quota_admitted_messages"], **ORDERS) == 0


async def test_minute_averages_stand_beside_the_busiest_second(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """A dashboard shows why clients waited below the limit; without traffic there is no series."""
    key = (orders, Dimension.PUBLISH_MESSAGES)
    world.views.minutes[key] = MinuteView(60, 33, 1_000, 2)
    families = await scrape(client)

    def value(name: str) -> float:
        return value_of(families[f"pulsar_quota_{name}"], **ORDERS)

    assert value("minute_average_messages_per_second") == 33
    assert value("minute_peak_messages_per_second") == 1_000
    assert value("throttled_messages_windows") == 2
    assert families["pulsar_quota_minute_peak_bytes_per_second"].samples == []


async def test_a_tree_is_told_in_numbers(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """Of each group in what is limited: its part, its guarantee and its loan."""
    shop = TreeGroupView("shop", "", 0, 1, 1_000, 0, 1_000, 1_000, None, 980, 0)
    web = TreeGroupView("web", "shop", 1, 2, 1_000, 600, 900, 700, None, 880, 180)
    for dimension, rows in (
        (Dimension.PUBLISH_MESSAGES, (shop, web)),
        (Dimension.DISPATCH_BYTES, (replace(web, part=None),)),
    ):
        world.views.planted["shop", dimension] = TreeView("shop", dimension, rows)

    text = (await client.get("/metrics")).text
    labels = '{group="web",monitoring_class="Publish",parent="shop"}'
    assert f"pulsar_quota_tree_part_messages_per_second{labels} 900.0" in text
    assert f"pulsar_quota_tree_guaranteed_messages_per_second{labels} 600.0" in text
    assert f"pulsar_quota_tree_borrowed_messages_per_second{labels} 180.0" in text
    root = '{group="shop",monitoring_class="Publish",parent=""}'
    assert f"pulsar_quota_tree_part_messages_per_second{root} 1000.0" in text
    assert "pulsar_quota_tree_part_bytes_per_second{" not in text

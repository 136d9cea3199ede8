"""A limit that was taken in advance is told with the client that took it."""

from __future__ import annotations

import httpx
import pytest

from coordinator.core.model import MonitoringClass
from coordinator.insight.model.gate_views import HOLD_BUCKETS_NS, Debtor, HoldView
from tests.admin_api.test_metrics import scrape, value_of
from tests.admin_api.world import World

DEBTOR = Debtor("10.0.0.9:5123", "shop", "persistent://a/b/c", 3_000_000, 1_300)


def held(
    owed_ns: int,
    debtor: Debtor | None = DEBTOR,
    of: MonitoringClass = MonitoringClass.PUBLISH,
) -> HoldView:
    """The gate's view of what it has held of the group."""
    counts = (0,) * (len(HOLD_BUCKETS_NS) + 1)
    return HoldView("resource group", "orders", of, counts, 0, {}, owed_ns, debtor)


async def debts(client: httpx.AsyncClient) -> list[str]:
    """The sentences of explain on debts of published messages."""
    found = (await client.get("/quota/v1/explain/orders")).json()
    return list(found["debt"])


async def test_explain_names_who_took_a_limit_in_advance(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """The publish, its size and the client, for the class of the question alone."""
    world.throttle_orders()
    world.gate.held = (held(4_200_000_000),)

    (said,) = await debts(client)

    assert said == (
        "4.2 s of the limit are taken in advance, last by a publish of 3,000,000 messages and 1,300 "
        "bytes of persistent://a/b/c: 10.0.0.9:5123, role shop."
    )


@pytest.mark.parametrize(
    "other",
    [held(0), held(10**9, None), held(10**9, of=MonitoringClass.DISPATCH)],
    ids=["paid", "small", "dispatch"],
)
async def test_a_debt_that_is_paid_or_small_or_of_another_class_is_not_told(
    client: httpx.AsyncClient, world: World, orders: str, other: HoldView
) -> None:
    """Explain is asked about published messages."""
    world.throttle_orders()
    world.gate.held = (other,)
    assert await debts(client) == []


async def test_debts_are_a_metric(client: httpx.AsyncClient, world: World) -> None:
    """In seconds, by limit and class."""
    world.gate.held = (held(4_200_000_000),)
    families = await scrape(client)
    labels = {"scope": "resource group", "name": "orders", "monitoring_class": "Publish"}
    assert value_of(families["pulsar_quota_debt_seconds"], **labels) == 4.2

"""A limit that was taken in advance is told with the client that took it."""

from __future__ import annotations

import httpx
import pytest

from coordinator.core.model import MonitoringClass
from coordinator.insight.model.gate_views import Debtor, HoldView
from tests.admin_api.test_metrics import scrape, value_of
from tests.admin_api.world import World

DEBTOR = Debtor("10.0.0.9:5123", "shop", "persistent://a/b/c", 3_000_000, 1_300)


def held(owed_ns: int, debtor: Debtor | None = DEBTOR) -> HoldView:
    """What the gate has held of the group's publishes."""
    of = MonitoringClass.PUBLISH
    return HoldView("resource group", "orders", of, (), 0, {}, owed_ns, debtor)


async def debts(client: httpx.AsyncClient, dimension: str) -> list[str]:
    """What explain says of them."""
    query = {"dimension": dimension, "broker": "broker-1"}
    found = (await client.get("/quota/v1/explain/orders", params=query)).json()
    return list(found["debt"])


async def test_explain_names_who_took_a_limit_in_advance(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """The publish, its size and the client, for the class of the question alone."""
    world.throttle_orders()
    world.gate.held = (held(4_200_000_000),)

    (said,) = await debts(client, "publishRateInMsgs")

    assert said == (
        "4.2 s of the limit are taken in advance, last by a publish of 3,000,000 messages and 1,300 bytes "
        "of persistent://a/b/c: 10.0.0.9:5123, role shop."
    )
    assert await debts(client, "dispatchRateInMsgs") == []


@pytest.mark.parametrize("paid", [held(0), held(4_200_000_000, None)])
async def test_a_debt_that_is_paid_or_small_is_not_told(
    client: httpx.AsyncClient, world: World, orders: str, paid: HoldView
) -> None:
    """Nor one that nobody in particular has made."""
    world.throttle_orders()
    world.gate.held = (paid,)
    assert await debts(client, "publishRateInMsgs") == []


async def test_debts_are_a_metric(client: httpx.AsyncClient, world: World) -> None:
    """In seconds, by limit and class."""
    world.gate.held = (held(4_200_000_000),)
    families = await scrape(client)
    labels = {"scope": "resource group", "name": "orders", "monitoring_class": "Publish"}
    assert value_of(families["pulsar_quota_debt_seconds"], **labels) == 4.2

"""Answers that Pulsar lacks: definitions in full, usage, limits, explanations, the sidecar's state."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from admin_api.routes import pages, quota
from coordinator.core.certificate.statement import Certificate
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import Dimension
from coordinator.core.usage.agreement import Matter
from coordinator.insight.model.views import DisagreementView, MemberView
from coordinator.ports import RecorderHealth
from tests.admin_api.world import World

UNLIMITED = {
    "publishRateInMsgs": -1,
    "publishRateInBytes": -1,
    "dispatchRateInMsgs": -1,
    "dispatchRateInBytes": -1,
}
ORDERS = UNLIMITED | {"publishRateInMsgs": 3_000}


async def test_definition_in_full(client: httpx.AsyncClient, orders: str) -> None:
    """Limits, our own settings, versions, and what is attached."""
    await client.post("/admin/v2/namespaces/public/other/resourcegroup/orders")
    await client.post("/admin/v2/namespaces/public/default/resourcegroup/orders")
    await client.post("/admin/v2/tenants/public/resourcegroup/orders")

    found = await client.get("/quota/v1/groups/orders")

    assert found.json() == ORDERS | {
        "name": "orders",
        "law": "max-min",
        "weights": "equal",
        "overshootPolicy": "balanced",
        "partitionPolicy": "hold",
        "enforcement": "enforce",
        "observes": "",
        "parent": "",
        "weight": 1,
        "onLimit": "hold",
        "holdMillis": 1_000,
        "burstSeconds": 0,
        "publishGuaranteeInMsgs": 0,
        "publishGuaranteeInBytes": 0,
        "dispatchGuaranteeInMsgs": 0,
        "dispatchGuaranteeInBytes": 0,
        "allowedTenants": [],
        "configurationVersion": 1,
        "attachments": {
            "tenants": ["public"],
            "namespaces": ["public/default", "public/other"],
            "roles": [],
            "defaultRole": False,
            "subscriptions": [],
            "remoteClusters": [],
        },
        "children": [],
    }
    assert (await client.get("/quota/v1/groups")).json() == [found.json()]


async def test_usage(client: httpx.AsyncClient, world: World, orders: str) -> None:
    """Rates are per second, shares from 0 to 1, ages in milliseconds."""
    world.throttle_orders()

    usage = (await client.get("/quota/v1/usage/orders")).json()

    assert (usage["group"], usage["limits"]) == ("orders", ORDERS)
    assert usage["brokers"][1] == {
        "broker": "broker-2",
        "admitted": dict.fromkeys(UNLIMITED, 0) | {"publishRateInMsgs": 1_990},
        "limits": UNLIMITED | {"publishRateInMsgs": 2_000},
        "throttledShare": dict.fromkeys(UNLIMITED, 0.0) | {"publishRateInMsgs": 0.61},
        "participants": 3,
        "topics": 2,
        "reportAgeMillis": 210,
    }
    assert (await client.get("/quota/v1/usage")).json() == [usage]


async def test_limits(client: httpx.AsyncClient, world: World, orders: str) -> None:
    """The limit of the cluster beside the local limits in force."""
    world.throttle_orders()

    limits = (await client.get("/quota/v1/limits")).json()

    assert limits == [
        {
            "group": "orders",
            "law": "max-min",
            "overshootPolicy": "balanced",
            "configurationVersion": 1,
            "limits": ORDERS,
            "brokers": {
                "broker-1": UNLIMITED | {"publishRateInMsgs": 1_000},
                "broker-2": UNLIMITED | {"publishRateInMsgs": 2_000},
            },
        }
    ]


async def test_explain(client: httpx.AsyncClient, world: World, orders: str) -> None:
    """The sentence next to the fields it was made from; an unknown demand is null.

    Published messages and the answering sidecar's broker go without saying.
    """
    world.throttle_orders()
    query = {"dimension": "publishRateInMsgs", "broker": "broker-2"}

    found = (await client.get("/quota/v1/explain/orders", params=query)).json()

    assert found["sentence"] == "broker-2 has what it has."
    assert (found["clusterLimit"], found["localLimit"], found["target"]) == (3_000, 2_000, 2_000)
    assert (found["binding"], found["waterLevel"]) == ("level", 2_000)
    assert (found["decidedAgeMillis"], found["round"]) == (400, 812)
    assert found["wouldChange"] == ["a higher limit", "less demand"]
    own = (await client.get("/quota/v1/explain/orders")).json()
    assert (own["broker"], own["dimension"]) == ("broker-1", "publishRateInMsgs")
    assert found["wants"][1] == {
        "broker": "broker-2",
        "wants": None,
        "wantsAtLeast": 1_990,
        "weight": 1,
        "admitted": 1_990,
        "limit": 2_000,
        "throttledShare": 0.61,
        "reportAgeMillis": 210,
    }


async def test_a_certificate_says_what_it_is_made_of(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """The sum, what comes on top of it, and every broker's part with its reason."""
    world.throttle_orders()
    answer = (await client.get(f"/quota/v1/certificate/{orders}")).json()

    assert (await client.get("/quota/v1/certificate")).json() == [answer]
    (certificate,) = answer["certificates"]
    assert certificate.pop("sentence").startswith(
        "All together hold at most 3,000/s of 3,000/s now"
    )
    assert certificate == {
        "dimension": "publishRateInMsgs",
        "limit": 3_000,
        "most": 3_000,
        "newcomer": 15,
        "burst": 152,
        "slack": "",
        "holders": [
            {"broker": "broker-1", "most": 1_000, "basis": "in force here"},
            {"broker": "broker-2", "most": 2_000, "basis": "announced"},
        ],
    }
    assert (await client.get("/quota/v1/certificate/nobody")).status_code == 404


async def test_where_nothing_can_be_certified_it_says_why(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """Null is no bound, and not zero; the metric has no series then."""
    obstacle = "this sidecar is cut off from ZooKeeper"
    nothing = Certificate(
        orders, Dimension.PUBLISH_MESSAGES, 3_000, None, newcomer=0, burst=0, obstacle=obstacle
    )
    world.views.certified[orders] = (nothing,)
    (certificate,) = (await client.get("/quota/v1/certificate/orders")).json()["certificates"]

    assert (certificate["most"], certificate["limit"], certificate["holders"]) == (None, 3_000, [])
    assert certificate["sentence"].endswith(f"all may hold together: {obstacle}.")
    assert "certificate_messages_per_second{" not in (await client.get("/metrics")).text


async def test_health_of_a_well_sidecar(client: httpx.AsyncClient) -> None:
    """State, members and what was dropped."""
    health = await client.get("/quota/v1/health")

    assert health.json() == {
        "broker": "broker-1",
        "incarnation": 17,
        "state": "ACTIVE",
        "ready": True,
        "degradations": [],
        "round": 812,
        "members": [
            {
                "broker": "broker-1",
                "incarnation": 17,
                "apiAddress": "127.0.0.1:8087",
                "reportAgeMillis": 0,
                "silent": False,
            },
            {
                "broker": "broker-2",
                "incarnation": 19,
                "apiAddress": "127.0.0.1:8088",
                "reportAgeMillis": 210,
                "silent": False,
            },
        ],
        "reportsDropped": {},
        "disagreements": [],
        "foreignReports": {},
        "announcementsCapped": {},
        "failedTasks": [],
        "recording": None,
        "enforcementPath": "gate",
        "provesRoles": True,
    }
    assert (await client.get("/quota/v1/members")).json() == health.json()["members"]


async def test_health_of_a_degraded_sidecar(client: httpx.AsyncClient, world: World) -> None:
    """Health is 200 in every state, because its reader wants to know the reason.

    It names liars, and the brokers in whose name others report; an age that does not exist is null.
    """
    degradation = Degradation.BUS_SILENT
    differs = DisagreementView("broker-2", Matter.USAGE, 4_200_000_000)
    world.views.turn(
        state=Lifecycle.DEGRADED,
        degradations=(degradation,),
        ready=False,
        members=(MemberView("broker-3", 1, "", None),),
        disagreements=(differs,),
        foreign_reports={"broker-2": 7},
        announcements_capped={"broker-3": 21},
    )

    health = await client.get("/quota/v1/health")

    assert health.status_code == 200
    assert health.json()["degradations"] == [{"name": "BUS_SILENT", "reason": degradation.value}]
    assert health.json()["disagreements"] == [
        {"peer": "broker-2", "matter": "usage", "ageMillis": 4200}
    ]
    assert health.json()["members"][0]["reportAgeMillis"] is None
    assert health.json()["foreignReports"] == {"broker-2": 7}
    assert health.json()["announcementsCapped"] == {"broker-3": 21}


async def test_health_tells_why_nothing_can_be_recorded(
    client: httpx.AsyncClient, world: World
) -> None:
    """A full disk, and what waits for it; a sidecar stays ready without its recorder."""
    world.views.recorded = RecorderHealth(
        recording=False, reason="no space left", failures=3, rows_waiting=20, rows_dropped=1
    )

    health = (await client.get("/quota/v1/health")).json()

    assert health["ready"]
    assert health["recording"] == {
        "recording": False,
        "reason": "no space left",
        "failures": 3,
        "rowsWritten": 0,
        "rowsWaiting": 20,
        "rowsDropped": 1,
    }


async def test_ready(client: httpx.AsyncClient) -> None:
    """200 when traffic may come."""
    response = await client.get("/quota/v1/ready")

    assert (response.status_code, response.json()) == (200, {"ready": True, "state": "ACTIVE"})


@pytest.mark.parametrize(
    ("state", "degradations"),
    [
        *(
            (state, ())
            for state in Lifecycle
            if state not in (Lifecycle.ACTIVE, Lifecycle.DEGRADED)
        ),
        *((Lifecycle.DEGRADED, (degradation,)) for degradation in Degradation),
    ],
)
async def test_not_ready(
    client: httpx.AsyncClient,
    world: World,
    state: Lifecycle,
    degradations: tuple[Degradation, ...],
) -> None:
    """503 says the state and why; a silent bus is told here alone, as it fails no request."""
    world.views.turn(state=state, degradations=degradations, ready=False)

    response = await client.get("/quota/v1/ready")

    assert response.status_code == 503
    why = response.json()["reason"].removeprefix(f"{state.value}: ")
    assert why == degradations[0].value if degradations else len(why) > 10


async def test_faults(client: httpx.AsyncClient, world: World) -> None:
    """Entries that cannot be read, by path."""
    world.views.shown = replace(world.views.shown, faults={"/groups/x": "not JSON"})

    assert (await client.get("/quota/v1/catalogue/faults")).json() == {"/groups/x": "not JSON"}


async def test_openapi_describes_every_path_once(client: httpx.AsyncClient) -> None:
    """PIP-82's other spellings answer, but there is one to learn."""
    document = (await client.get("/openapi.json")).json()

    paths = document["paths"]
    assert "/admin/v2/resourcegroups/{name}" in paths
    assert not [path for path in paths if path.startswith("/admin/v2/resourcegroup/")]
    body = paths["/admin/v2/resourcegroups/{name}"]["put"]["requestBody"]
    fields = body["content"]["application/json"]["schema"]["properties"]
    assert list(fields)[:4] == list(UNLIMITED)


async def test_openapi_describes_fields_of_answers_and_what_an_error_looks_like(
    client: httpx.AsyncClient,
) -> None:
    """A field by its docstring, an error by the model to which each path refers, however often asked."""
    document = (await client.get("/openapi.json")).json()

    schemas = document["components"]["schemas"]
    incarnation = schemas["MemberView"]["properties"]["incarnation"]
    assert incarnation["description"] == "grows with every registration of the broker"
    refused = document["paths"]["/quota/v1/usage"]["get"]["responses"]["4XX"]
    name = refused["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert schemas[name]["required"] == ["reason"]
    assert (await client.get("/openapi.json")).json() == document


@pytest.mark.parametrize("what", ["groups", "usage", "limits"])
async def test_long_lists_come_in_pages(client: httpx.AsyncClient, what: str) -> None:
    """The Link header leads from page to page, and the last one has none."""
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        await client.put(f"/admin/v2/resourcegroups/{name}", json={})

    seen: list[list[str]] = []
    url: str | None = f"/quota/v1/{what}?limit=2"
    while url is not None:
        page = await client.get(url)
        seen.append([row["name" if what == "groups" else "group"] for row in page.json()])
        url = page.links.get("next", {}).get("url")

    assert seen == [["a", "b"], ["c", "d"], ["e"]]


async def test_a_page_has_not_too_many_rows(
    client: httpx.AsyncClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many brokers a page ends earlier, and never without a group."""
    monkeypatch.setattr(pages, "MAX_ROWS", 3)
    world.throttle_orders()
    for name in ("a", "b", "c"):
        await client.put(f"/admin/v2/resourcegroups/{name}", json={})

    first = await client.get("/quota/v1/usage")
    second = await client.get(first.links["next"]["url"])

    assert [row["group"] for row in first.json()] == ["a", "b"]
    assert [row["group"] for row in second.json()] == ["c"]
    assert "next" not in second.links


async def test_explain_waits_for_the_first_decision(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """A group that is new is not unknown."""
    world.throttle_orders()
    world.views.undecided.add("orders")
    asking = asyncio.create_task(client.get("/quota/v1/explain/orders"))
    await asyncio.wait({asking}, timeout=0.05)
    assert not asking.done()

    world.views.undecided.clear()

    assert (await asking).status_code == 200


async def test_explain_gives_up_when_nothing_is_decided(
    client: httpx.AsyncClient, world: World, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says to try again, not that there is no such group."""
    monkeypatch.setattr(quota, "_DECISION_POLL_S", 0)
    world.views.undecided.add("orders")

    answer = await client.get("/quota/v1/explain/orders")

    assert (answer.status_code, answer.json()["reason"][-9:]) == (503, "try again")

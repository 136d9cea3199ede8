"""Two laws side by side over REST: who would gain, who would lose, and nothing changed."""

from __future__ import annotations

import httpx
import pytest

from coordinator.core.allocation.laws import LAWS
from tests.admin_api.world import World

PATH = "/quota/v1/shadow/orders"


async def test_a_comparison_in_full(client: httpx.AsyncClient, orders: str) -> None:
    """Each broker's part under both laws, the rate that would move, and the sentence."""
    answer = await client.get(PATH, params={"law": "static"})

    assert answer.status_code == 200
    assert answer.json() == {
        "group": "orders",
        "dimension": "publishRateInMsgs",
        "law": "max-min",
        "candidate": "static",
        "limit": 3_000,
        "moved": 500,
        "brokers": [
            {"broker": "broker-1", "now": 1_000, "then": 1_500},
            {"broker": "broker-2", "now": 2_000, "then": 1_500},
        ],
        "sentence": "Under static broker-1 would be due 1,500/s, not 1,000/s; 500 of 3,000/s "
        "would move.",
    }


async def test_the_sidecars_own_candidate_goes_without_saying(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """It is in explain, too; without one it is asked for."""
    world.throttle_orders()
    reason = (await client.get(PATH)).json()["reason"]
    assert reason.startswith("law: name one, as this sidecar's configuration has no shadow_law")
    assert (await client.get("/quota/v1/explain/orders")).json()["shadow"] is None
    world.views.candidate = "static"

    assert (await client.get(PATH)).json()["candidate"] == "static"
    shadow = (await client.get("/quota/v1/explain/orders?broker=broker-2")).json()["shadow"]
    assert (shadow["candidate"], shadow["moved"]) == ("static", 500)
    assert shadow["sentence"].startswith("Under static broker-2 would be due 1,500/s, not 2,000/s")


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        (f"{PATH}?law=grd", 400, f'law: must be one of {", ".join(LAWS)}, but is "grd"'),
        ("/quota/v1/shadow/none?law=static", 404, "ResourceGroup does not exist"),
        (
            f"{PATH}?law=static&dimension=dispatchRateInMsgs",
            404,
            "orders does not limit dispatchRateInMsgs",
        ),
    ],
)
async def test_what_cannot_be_compared(
    client: httpx.AsyncClient, orders: str, path: str, status: int, reason: str
) -> None:
    """An unknown law or group, and what is not limited."""
    answer = await client.get(path)

    assert (answer.status_code, answer.json()) == (status, {"reason": reason})

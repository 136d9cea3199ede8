"""A path with bytes that are not UTF-8 is refused before any route sees it, wherever it leads."""

from __future__ import annotations

import itertools
import re

import httpx
import pytest
from structlog.testing import capture_logs

from tests.admin_api.world import Broker, World

NOT_UTF_8 = ["%FF", "a%FFb", "caf%E9", "%C0%AE", "%ED%A0%80", "%F0%9F%98", "%C3%2F%A9"]
"""Single bytes, an overlong dot, half of a surrogate pair, three bytes of four, a letter cut in two."""


def reason_for(part: str) -> str:
    """The reason of a refusal, which quotes the part of the path as it was sent."""
    return f"path: '{part}' is not UTF-8: write it as percent-encoded UTF-8"


def named_paths(world: World) -> list[tuple[str, str, str]]:
    """Method, path and parameter of every route with names in its path."""
    return [
        (method.upper(), path, parameter)
        for path, methods in world.app.openapi()["paths"].items()
        for method, parameter in itertools.product(methods, re.findall(r"\{(\w+)\}", path))
    ]


@pytest.mark.parametrize("name", NOT_UTF_8)
async def test_no_name_in_any_path_holds_other_bytes(world: World, name: str) -> None:
    """Each parameter of each path by itself is refused by what was sent, and nothing is changed."""
    routes = named_paths(world)
    assert {parameter for *_, parameter in routes} >= {
        "name",
        "tenant",
        "namespace",
        "topic",
        "role",
    }
    async with world.client(cluster_group="all") as client:
        for method, path, parameter in routes:
            filled = path.replace("{" + parameter + "}", name)
            target = re.sub(r"\{\w+\}", "1", filled)
            refused = await client.request(method, target, content=b"{}")

            assert refused.status_code == 400, (method, target)
            assert refused.json() == {"reason": reason_for(name)}, (method, target)
    assert not world.views.shown.groups
    assert not world.topic_limits.known()
    assert not await world.store.audit_entries(10)


@pytest.mark.parametrize(
    "path",
    [
        "/nope/%FF",
        "/dashboard/%FF",
        "/admin/v2/namespaces/public/%FF",
        "/lookup/v2/topic/persistent/public/default/%FF",
        "/topics/persistent/public/default/%FF",
    ],
)
async def test_so_it_is_where_nothing_or_the_broker_answers(world: World, path: str) -> None:
    """The broker hears nothing."""
    broker = Broker()
    async with world.client(relay=broker.relay) as client:
        refused = await client.get(path)

    assert (refused.status_code, refused.json()) == (400, {"reason": reason_for("%FF")})
    assert not broker.asked


async def test_the_refusal_is_an_answer_like_any_other(world: World) -> None:
    """It has an id and the one content type, it is counted, and a change is logged with its status."""
    with capture_logs() as logs:
        async with world.client() as client:
            refused = await client.delete("/quota/v1/roles/%FF/resourcegroup")
            missing = await client.delete("/quota/v1/nothing")

    assert refused.headers.keys() == missing.headers.keys()
    assert refused.headers["content-type"] == missing.headers["content-type"] == "application/json"
    assert world.backend.refusals.counts()["path"] == 1
    (told,) = (entry for entry in logs if entry["event"] == "refused")
    assert (told["reason"], told["words"]) == ("path", reason_for("%FF"))
    assert [entry["status"] for entry in logs if entry["event"] == "request"] == [400, 404]


async def test_a_long_part_is_shown_by_its_beginning(world: World) -> None:
    """The log keeps a line for each second of a flood."""
    async with world.client() as client:
        refused = await client.get("/quota/v1/roles/" + "a" * 5_000 + "%FF/resourcegroup")
    assert refused.json() == {"reason": reason_for("a" * 80)}


@pytest.mark.parametrize("topic", ["%EF%BF%BD", "gr%C3%B6%C3%9Fe", "%F0%9F%98%80", "%", "%zz"])
async def test_every_other_letter_may_stand_in_a_topics_name(
    client: httpx.AsyncClient, world: World, topic: str
) -> None:
    """The letter that stands for broken bytes elsewhere is one like any other here."""
    path = f"/quota/v1/persistent/shop/eu/{topic}/publishRate"
    set_ = await client.post(path, json={"publishThrottlingRateInMsg": 5})

    assert set_.status_code == 204, set_.text
    assert len(world.topic_limits.known()) == 1

"""Headers, queries and bodies that break parsers get a 4xx with a reason, or no answer."""

from __future__ import annotations

import base64
import itertools
import json

import httpx
import pytest
from structlog.testing import capture_logs

from tests.admin_api.keys import access
from tests.admin_api.world import World

DIGITS = "9" * 5_000
ODD = [
    DIGITS,
    "-" + DIGITS,
    "1e" + "9" * 400,
    "0x10",
    "NaN",
    "-Infinity",
    "1_000",
    " 1",
    "+1",
    "1.0",
    "\u0661",
    "\u00b2",
    "",
    "null",
    "[" * 5_000,
    "\ud7ff\uffff",
    "%00",
    "a" * 20_000,
    "\x1b[2J",
    "*, *",
    '"' * 9_999,
    'W/"' + "," * 9_000,
]
GROUP = "/admin/v2/resourcegroups/orders"


async def test_a_last_event_id_is_a_number_of_a_note(client: httpx.AsyncClient) -> None:
    """Any other is refused before a stream begins."""
    for value in (DIGITS, "-1", "x", "1.5", "1_0", "9" * 20):
        refused = await client.get("/quota/v1/events", headers={"Last-Event-ID": value})
        assert refused.status_code == 400
        assert refused.json()["reason"].startswith("Last-Event-ID: must be the number of a note")


@pytest.mark.parametrize(
    "name",
    [
        "If-Match",
        "If-None-Match",
        "Accept",
        "Accept-Encoding",
        "Content-Type",
        "X-Request-Id",
        "Authorization",
        "Range",
        "Cookie",
        "Forwarded",
        "X-Forwarded-For",
        "Sec-Fetch-Mode",
    ],
)
async def test_no_header_makes_a_server_error(world: World, name: str) -> None:
    """This holds for any value of any length; the log has no traceback."""
    paths = ["/metrics", "/quota/v1/groups", "/", "/dashboard/app.js", "/quota/v1/ready"]
    with capture_logs() as logs:
        async with world.client() as client:
            for value, path in itertools.product(ODD, paths):
                headers = [(name.encode(), value.encode("utf-8", "replace"))]
                answer = await client.get(path, headers=headers)
                assert answer.status_code < 500, (value[:20], path, answer.text)
            for value in ODD:
                headers = [(name.encode(), value.encode("utf-8", "replace"))]
                answer = await client.put(GROUP, content=b"{}", headers=headers)
                assert answer.status_code < 500, (value[:20], answer.text)
    assert not [entry for entry in logs if entry["log_level"] == "error"]


async def test_no_query_makes_a_server_error(world: World) -> None:
    """Each parameter of each path that has some."""
    described = world.app.openapi()["paths"]
    asked = 0
    with capture_logs() as logs:
        async with world.client(cluster_group="all", delayed_group="late") as client:
            for path, methods in described.items():
                parameters = methods.get("get", {}).get("parameters", [])
                filled = path
                for found in parameters:
                    if found["in"] == "path":
                        filled = filled.replace("{" + found["name"] + "}", "1")
                names = [found["name"] for found in parameters if found["in"] == "query"]
                for name, value in itertools.product(names, ODD):
                    answer = await client.get(filled, params={name: value})
                    assert answer.status_code < 500 or answer.status_code == 503, (path, name)
                    asked += 1
    assert asked > 200
    assert not [entry for entry in logs if entry["log_level"] == "error"]


def _token(header: str, payload: str = "{}") -> str:
    parts = [
        base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (header, payload)
    ]
    return ".".join([*parts, "AAAA"])


async def test_no_token_makes_a_server_error(world: World) -> None:
    """A token is parsed before its signature is checked."""
    tokens = [
        *ODD,
        "..",
        ".",
        "a.b.c",
        *(
            _token(header)
            for header in (
                "[" * 20_000,
                '{"alg":' * 4_000,
                '{"alg":' + DIGITS + "}",
                '{"alg":NaN}',
                '{"alg":null}',
                '{"alg":["HS256"]}',
                '{"alg":{}}',
                '{"alg":"HS256","alg":"none"}',
                '{"alg":"\\ud800"}',
                '{"alg":"HS256","crit":["x"]}',
                '{"alg":"HS256","crit":7}',
                '{"alg":"HS256","kid":7}',
                '{"alg":"HS256","b64":false}',
                '{"alg":"HS256","zip":"DEF"}',
                "7",
                "null",
                '"x"',
            )
        ),
        _token('{"alg":"HS256"}', "[" * 20_000),
    ]
    with capture_logs() as logs:
        async with world.client(access=access()) as client:
            for token in tokens:
                value = f"Bearer {token}".encode("utf-8", "replace")
                answer = await client.get("/quota/v1/groups", headers=[(b"Authorization", value)])
                assert answer.status_code == 401, (token[:40], answer.text)
                assert answer.json()["reason"].isprintable()
    assert not [entry for entry in logs if entry["log_level"] == "error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", GROUP),
        ("PUT", "/quota/v1/log-level"),
        ("PUT", "/quota/v1/cluster/specification"),
        ("POST", "/quota/v1/persistent/public/default/t/publishRate"),
    ],
)
async def test_no_body_makes_a_server_error(world: World, method: str, path: str) -> None:
    """Deep, huge, double, half of a letter, no number."""
    bodies = [
        "[" * 60_000,
        '{"a":' * 10_000,
        '{"level":' + DIGITS + "}",
        '{"publishRateInMsgs":' + DIGITS + "}",
        '{"publishRateInMsgs":-' + DIGITS + "}",
        '{"publishRateInMsgs":1e400}',
        '{"publishRateInMsgs":-1e400}',
        '{"publishRateInMsgs":NaN}',
        '{"publishRateInMsgs":Infinity}',
        '{"productionShare":1e400}',
        '{"productionShare":NaN}',
        '{"a":1,"a":2}',
        '{"\\ud800":1}',
        '{"level":"\\ud800"}',
        '{"law":"\\ud800\\u001b[2J"}',
        '{"observes":"\\udfff"}',
        '{"publishRateInMsgs":{"a":' * 2_000,
        json.dumps({"x" * 60_000: 1}),
        "\x00",
    ]
    with capture_logs() as logs:
        async with world.client(cluster_group="all") as client:
            for body in bodies:
                refused = await client.request(method, path, content=body.encode())
                assert refused.status_code == 400, (body[:30], refused.text)
                assert refused.json()["reason"].isprintable()
                assert len(refused.text) < 5_000
    assert not [entry for entry in logs if entry["log_level"] == "error"]
    assert not world.views.shown.groups


@pytest.mark.parametrize("path", ["/quota/v1/log-level", GROUP])
async def test_an_endless_body_is_413_before_anybody_is_identified(world: World, path: str) -> None:
    """A body without a length fills no memory, on any path that reads one."""
    sent = 0

    async def endless() -> object:
        nonlocal sent
        while sent < 64 * 1024 * 1024:
            sent += 1024
            yield b" " * 1024

    async with world.client() as client:
        refused = await client.put(path, content=endless())  # type: ignore[arg-type]
    assert refused.status_code == 413
    assert sent < 1024 * 1024

"""Every request has an id, in its answer and in the log."""

from __future__ import annotations

import httpx
import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

GROUP_PATH = "/admin/v2/resourcegroups/orders"


async def test_an_answer_names_the_id_that_the_caller_gave(client: httpx.AsyncClient) -> None:
    """A chain of services shares one id; refusals have it too."""
    for path in ("/quota/v1/health", "/quota/v1/groups/none", "/nowhere"):
        answer = await client.get(path, headers={"X-Request-Id": "trace-17"})
        assert answer.headers["x-request-id"] == "trace-17"


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\tb", 'a"b'])
async def test_an_id_that_could_not_stand_in_a_log_is_replaced(
    client: httpx.AsyncClient, given: str
) -> None:
    """A reader of the log must be able to trust its lines."""
    first = await client.get("/quota/v1/health", headers={"X-Request-Id": given})
    second = await client.get("/quota/v1/health", headers={"X-Request-Id": given})

    assert len(first.headers["x-request-id"]) == 32
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


async def test_a_change_is_logged_with_its_id_and_outcome_but_no_credentials(
    client: httpx.AsyncClient,
) -> None:
    """Method, path, status and time; reading is logged at the level debug only."""
    headers = {"X-Request-Id": "trace-17", "Authorization": "Bearer secret"}
    with capture_logs([merge_contextvars]) as logs:
        await client.get("/quota/v1/health", headers=headers)
        await client.put(GROUP_PATH, json={"publishRateInMsgs": 1}, headers=headers)

    read, changed = [entry for entry in logs if entry["event"] == "request"]
    assert (read["log_level"], changed["log_level"]) == ("debug", "info")
    assert (changed["method"], changed["path"], changed["status"]) == ("PUT", GROUP_PATH, 204)
    assert changed["request_id"] == "trace-17"
    assert changed["millis"] >= 0
    assert "secret" not in str(logs)

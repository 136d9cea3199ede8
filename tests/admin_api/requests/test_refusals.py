"""Refusals count by their reason, and do not fill the log."""

from __future__ import annotations

import httpx
from structlog.testing import capture_logs

from admin_api.requests.refusals import REASONS, RefusalCounts
from tests.admin_api.world import Broker, World


def test_of_each_reason_one_line_a_second_is_logged() -> None:
    """The line has the last caller's host and words, and the number of refusals."""
    now_s = 100.0
    refusals = RefusalCounts(lambda: now_s)
    with capture_logs() as logs:
        for number in range(1_000):
            refusals.add("host", f"10.0.0.{number % 250}", "no")
        refusals.add("path", "10.0.0.1")
        now_s += 1.0
        refusals.add("host", "10.0.0.7", "not this one")
    assert [(entry["reason"], entry["host"], entry["count"]) for entry in logs] == [
        ("host", "10.0.0.0", 1),
        ("path", "10.0.0.1", 1),
        ("host", "10.0.0.7", 1_001),
    ]
    assert refusals.counts() == dict.fromkeys(REASONS, 0) | {"host": 1_001, "path": 1}


async def test_requests_that_are_refused_stand_in_the_metrics(world: World) -> None:
    """Each reason has a series from the start."""
    async with world.client(relay=Broker().relay, requests_per_second=5) as client:
        told = (await client.get("/metrics")).text
        assert 'pulsar_quota_api_refused_total{reason="host"} 0.0' in told
        await client.get("/quota/v1/ready", headers={"Host": "evil.example"})
        await client.delete("/admin/v2/x", headers={"Origin": "http://evil.example"})
        await client.get("/admin/v2/clusters;x")
        told = (await client.get("/metrics")).text
        for reason in ("host", "origin", "path"):
            assert f'pulsar_quota_api_refused_total{{reason="{reason}"}} 1.0' in told
        answers: list[httpx.Response] = [await client.get("/quota/v1/ready") for _ in range(20)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert world.backend.refusals.counts()["rate"] == len(refused) > 0

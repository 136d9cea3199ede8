"""The text of /metrics, as Prometheus' own tool reads it."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess

import httpx
import pytest

from tests.admin_api.backlog_world import BacklogWorld
from tests.admin_api.test_reconciliation import Reconciled
from tests.admin_api.world import World
from tests.deploy.test_shipped import steering_nothing

PULSARS = re.compile(
    r"pulsar_resource_group_\w+ label names should be written in 'snake_case' not 'camelCase'"
)
"""The one complaint: names and labels of PIP-82, which Pulsar's brokers have so."""


async def text_of_metrics() -> str:
    """All families of a sidecar with a group that is throttled, so that its demand is unknown."""
    world = World()
    async with world.client(
        backlogs=BacklogWorld().backlogs(), native=steering_nothing(), reconciling=Reconciled()
    ) as client:
        await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 1_000})
        world.throttle_orders()
        world.views.turn(broker="broker-2")
        answer: httpx.Response = await client.get("/metrics")
    return answer.text


@pytest.mark.skipif(shutil.which("promtool") is None, reason="it comes with Prometheus")
def test_promtool_finds_nothing_in_the_metrics_but_pulsars_own_labels() -> None:
    """A lint is a complaint on a line of its own."""
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=asyncio.run(text_of_metrics()), capture_output=True, text=True, check=False,
    )  # fmt: skip
    complaints = filter(None, (checked.stdout + checked.stderr).splitlines())

    assert [line for line in complaints if not PULSARS.fullmatch(line.strip())] == []


async def test_no_sample_is_infinite_or_no_number() -> None:
    """Sums and means over brokers would be lost with it; buckets of a histogram are labels."""
    values = [
        line.rpartition(" ")[2]
        for line in (await text_of_metrics()).splitlines()
        if not line.startswith("#")
    ]

    assert values
    assert [value for value in values if value.casefold().lstrip("+-") in ("nan", "inf")] == []

"""Every endpoint under generated requests: no 500, and nothing that the description does not say.

Schemathesis makes requests from the OpenAPI description, sensible ones and broken ones, and holds the
answers against it. Every second request is about things that exist, or hardly any would get far. The
event stream is left out, since it never ends. ``make fuzz-api`` runs many more.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case, HookContext
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.admin_api.world import World

EXAMPLES = int(os.environ.get("PULSAR_QUOTA_FUZZ_EXAMPLES", "4"))

_KNOWN = {"name": "orders", "group": "orders", "tenant": "public", "namespace": "default"}


async def _put_orders(world: World) -> None:
    await world.put_orders()
    async with world.client() as client:
        await client.post("/admin/v2/namespaces/public/default/resourcegroup/orders")
    await world.watch.look()


def _world() -> World:
    world = World()
    asyncio.run(_put_orders(world))
    world.throttle_orders()
    return world


_whole = schemathesis.openapi.from_asgi("/openapi.json", _world().app)
schema = _whole.exclude(path="/quota/v1/events")


@schema.hook
def map_path_parameters(_: HookContext, parameters: dict[str, Any] | None) -> Any:
    """Let every second request be about something that exists."""
    if parameters is None or len("".join(map(str, parameters.values()))) % 2:
        return parameters
    return {name: _KNOWN.get(name, value) for name, value in parameters.items()}


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_anything(case: Case[Any]) -> None:
    """Refused or answered, as described."""
    case.call_and_validate(
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_headers_conformance,
            response_schema_conformance,
        ]
    )

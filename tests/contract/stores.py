"""The groups and owners that the contracts of the store speak of, and what opens a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import namespace_owner, tenant_owner
from coordinator.ports import GroupStore

OpenStore = Callable[[], Awaitable[GroupStore]]

GOLD = ResourceGroup(
    "gold", Rates(publish_messages=100, dispatch_bytes=0), allowed_tenants=("acme",)
)
SILVER = ResourceGroup("silver", Rates(), allowed_tenants=("acme",))

ACME = tenant_owner("acme")
ORDERS = namespace_owner("acme", "orders")

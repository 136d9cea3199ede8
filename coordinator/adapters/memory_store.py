"""The group store in memory: deterministic and complete, for tests and for a single process.

Several sidecars can share one. A counter stands for ZooKeeper's zxid, so configuration versions grow
across delete and re-create, while a group's version starts at 0 again, as a ZooKeeper node's does.
Listeners are called before the write returns. What could not be written to ZooKeeper is refused here
too, by the same codec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordinator.core.model import Attachments, ResourceGroup
from coordinator.ports import (
    AlreadyExists,
    Catalogue,
    InUse,
    NotFound,
    StoreUnreachable,
    VersionConflict,
    Versioned,
)
from coordinator.wire.documents import encode_group, validate_name


class MemoryStore:
    """`coordinator.ports.GroupStore` in memory.

    Attributes:
        reachable: False makes every request raise StoreUnreachable, and change nothing.
    """

    def __init__(self) -> None:
        self.reachable = True
        self._listeners: list[Callable[[Catalogue], None]] = []
        self._groups: dict[str, Versioned] = {}
        self._tenants: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._zxid = 0

    def watch(self, listener: Callable[[Catalogue], None]) -> None:
        """Call the listener with the whole catalogue now and after every change."""
        self._listeners.append(listener)
        listener(self._snapshot())

    async def read_group(self, name: str) -> Versioned:
        """Read one group; raises NotFound, StoreUnreachable."""
        self._check_reachable()
        return self._find(name)

    async def create_group(self, group: ResourceGroup) -> Versioned:
        """Create a group; raises AlreadyExists, StoreUnreachable, ValueError."""
        self._check_reachable()
        encode_group(group)
        if group.name in self._groups:
            raise AlreadyExists(f"there is a resource group {group.name} already")
        return self._write(group, 0)

    async def update_group(self, group: ResourceGroup, version: int) -> Versioned:
        """Replace a definition; raises NotFound, VersionConflict, StoreUnreachable, ValueError."""
        self._check_reachable()
        encode_group(group)
        if self._find(group.name).version != version:
            raise VersionConflict(f"resource group {group.name} was changed meanwhile")
        return self._write(group, version + 1)

    async def delete_group(self, name: str) -> None:
        """Delete a group; raises NotFound, InUse, StoreUnreachable."""
        self._check_reachable()
        self._find(name)
        if name in self._tenants.values() or name in self._namespaces.values():
            raise InUse(f"resource group {name} is in use")
        del self._groups[name]
        self._tell()

    async def attach_tenant(self, tenant: str, group: str) -> None:
        """Attach a tenant; raises NotFound, StoreUnreachable, ValueError."""
        self._attach(self._tenants, validate_name(tenant), group)

    async def attach_namespace(self, tenant: str, namespace: str, group: str) -> None:
        """Attach a namespace; raises NotFound, StoreUnreachable, ValueError."""
        owner = f"{validate_name(tenant)}/{validate_name(namespace)}"
        self._attach(self._namespaces, owner, group)

    async def detach_tenant(self, tenant: str) -> None:
        """Detach a tenant; raises StoreUnreachable, ValueError."""
        self._detach(self._tenants, validate_name(tenant))

    async def detach_namespace(self, tenant: str, namespace: str) -> None:
        """Detach a namespace; raises StoreUnreachable, ValueError."""
        self._detach(self._namespaces, f"{validate_name(tenant)}/{validate_name(namespace)}")

    def _attach(self, attachments: dict[str, str], owner: str, group: str) -> None:
        self._check_reachable()
        self._find(group)
        attachments[owner] = group
        self._tell()

    def _detach(self, attachments: dict[str, str], owner: str) -> None:
        self._check_reachable()
        if attachments.pop(owner, None) is not None:
            self._tell()

    def _check_reachable(self) -> None:
        if not self.reachable:
            raise StoreUnreachable("the store was made unreachable")

    def _find(self, name: str) -> Versioned:
        try:
            return self._groups[validate_name(name)]
        except KeyError as error:
            raise NotFound(f"there is no resource group {name}") from error

    def _write(self, group: ResourceGroup, version: int) -> Versioned:
        self._zxid += 1
        written = Versioned(replace(group, configuration_version=self._zxid), version)
        self._groups[group.name] = written
        self._tell()
        return written

    def _tell(self) -> None:
        catalogue = self._snapshot()
        for listener in tuple(self._listeners):
            listener(catalogue)

    def _snapshot(self) -> Catalogue:
        attachments = Attachments(dict(self._tenants), dict(self._namespaces))
        return Catalogue(dict(self._groups), attachments)

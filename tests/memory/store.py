"""The group store in memory: deterministic and complete, for tests and for a single process.

Several sidecars can share one. A counter stands for ZooKeeper's zxid, so versions grow across delete and
re-create. Listeners are called before the write returns. An entry that could not be written to ZooKeeper
is refused here too, by the same codec.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from coordinator.core.model import ResourceGroup
from coordinator.core.owners import OwnerKind, TrafficOwner, attachments_of
from coordinator.ports import (
    ANONYMOUS,
    ANYTHING,
    AUDIT_LENGTH,
    AlreadyExists,
    Anything,
    AuditEntry,
    Catalogue,
    InUse,
    NotFound,
    Origin,
    Protected,
    StoreUnreachable,
    VersionConflict,
    Versioned,
    check_allowed,
    surplus,
)
from coordinator.wire.audit import State, decode_audit_entry, encode_audit_entry
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
        self._owners: dict[OwnerKind, dict[str, str]] = {kind: {} for kind in OwnerKind}
        #: Subjects that a super-user attached.
        self._super_users: set[str] = set()
        self._zxid = 0
        self._recorded = -1
        self._trail: list[AuditEntry] = []

    def watch(self, listener: Callable[[Catalogue], None]) -> None:
        """See `GroupStore`."""
        self._listeners.append(listener)
        listener(self._snapshot())

    async def read_group(self, name: str) -> Versioned:
        """See `GroupStore`."""
        self.check_reachable()
        return self._find(name)

    async def create_group(self, group: ResourceGroup, *, by: Origin = ANONYMOUS) -> Versioned:
        """See `GroupStore`."""
        self.check_reachable()
        encode_group(group)
        if group.name in self._groups:
            raise AlreadyExists(f"there is a resource group {group.name} already")
        self._find_parent(group)
        return self._write(group, None, by)

    async def update_group(
        self, group: ResourceGroup, version: int, *, by: Origin = ANONYMOUS
    ) -> Versioned:
        """See `GroupStore`."""
        self.check_reachable()
        encode_group(group)
        current = self._find(group.name)
        if current.version != version:
            raise VersionConflict(f"resource group {group.name} was changed meanwhile")
        self._find_parent(group)
        return self._write(group, current.group, by)

    async def delete_group(
        self, name: str, *, version: int | None = None, by: Origin = ANONYMOUS
    ) -> None:
        """See `GroupStore`."""
        self.check_reachable()
        current = self._find(name)
        if version is not None and current.version != version:
            raise VersionConflict(f"resource group {name} was changed meanwhile")
        if any(name in each.values() for each in self._owners.values()):
            raise InUse(f"resource group {name} is in use")
        if any(each.group.parent == name for each in self._groups.values()):
            raise InUse(f"resource group {name} is a parent")
        del self._groups[name]
        self.record(f"groups/{name}", current.group, None, by)
        self._tell()

    async def attach(
        self,
        owner: TrafficOwner,
        group: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """See `GroupStore`."""
        _check_names(owner)
        self.check_reachable()
        check_allowed(self._find(group).group, by)
        self._set(owner, group, expected, by)

    async def detach(
        self,
        owner: TrafficOwner,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """See `GroupStore`."""
        _check_names(owner)
        self._set(owner, None, expected, by)

    async def audit_entries(self, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        """See `GroupStore`."""
        self.check_reachable()
        wanted = [entry for entry in self._trail if before is None or entry.id < before]
        return tuple(reversed(wanted[-limit:]))

    async def audit_entry(self, entry_id: int) -> AuditEntry:
        """See `GroupStore`."""
        self.check_reachable()
        for entry in self._trail:
            if entry.id == entry_id:
                return entry
        raise NotFound(f"there is no audit entry {entry_id}")

    def _set(
        self, owner: TrafficOwner, group: str | None, expected: str | Anything | None, by: Origin
    ) -> None:
        self.check_reachable()
        attached, subject = self._owners[owner.kind], owner.subject
        before = attached.get(owner.name)
        if expected is not ANYTHING and before != expected:
            raise VersionConflict(f"{owner} was attached otherwise meanwhile")
        is_super_users = subject in self._super_users
        if before == group and (before is None or is_super_users or not by.is_super_user):
            return
        if is_super_users and not by.is_super_user:
            raise Protected(f"attached {subject}", by.actor)
        self._super_users.discard(subject)
        if group is None:
            del attached[owner.name]
        else:
            attached[owner.name] = group
            if by.is_super_user:
                self._super_users.add(subject)
        self.record(subject, before, group, by)
        self._tell()

    def check_reachable(self) -> None:
        """Raise StoreUnreachable if a test says so."""
        if not self.reachable:
            raise StoreUnreachable("the store was made unreachable")

    def _find(self, name: str) -> Versioned:
        try:
            return self._groups[validate_name(name)]
        except KeyError as error:
            raise NotFound(f"there is no resource group {name}") from error

    def _find_parent(self, group: ResourceGroup) -> None:
        if group.parent:
            self._find(group.parent)

    def _write(self, group: ResourceGroup, before: ResourceGroup | None, by: Origin) -> Versioned:
        version = self.next_version()
        written = Versioned(replace(group, configuration_version=version), version)
        self._groups[group.name] = written
        self.record(f"groups/{group.name}", before, group, by)
        self._tell()
        return written

    def next_version(self) -> int:
        """Return a number that was never given before."""
        self._zxid += 1
        return self._zxid

    def record(self, subject: str, before: State, after: State, by: Origin) -> None:
        """Add an entry to the audit trail."""
        # Through the codec, as in ZooKeeper: a document that cannot be read back must not be written.
        document = encode_audit_entry(subject, before, after, by)
        at_ms = time.time_ns() // 1_000_000
        self._recorded += 1
        self._trail.append(decode_audit_entry(self._recorded, at_ms, document))
        for place in surplus([entry.origin.tenant for entry in self._trail], AUDIT_LENGTH):
            del self._trail[place]

    def _tell(self) -> None:
        catalogue = self._snapshot()
        for listener in tuple(self._listeners):
            listener(catalogue)

    def _snapshot(self) -> Catalogue:
        return Catalogue(dict(self._groups), attachments_of(self._owners))


def _check_names(owner: TrafficOwner) -> None:
    match owner.kind:
        case OwnerKind.TENANT:
            validate_name(owner.name)
        case OwnerKind.NAMESPACE:
            for name in owner.name.split("/", 1):
                validate_name(name)

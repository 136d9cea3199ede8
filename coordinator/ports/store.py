"""The durable definitions of groups and attachments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from coordinator.core.model import Attachments, ResourceGroup
from coordinator.core.owners import TrafficOwner
from coordinator.ports.audit import ANONYMOUS, AuditEntry, Origin
from coordinator.ports.errors import NotAllowed


@dataclass(frozen=True, slots=True)
class Versioned:
    """A group definition with the version that a compare-and-set write must name.

    Versions are those of the whole store, so the version of a group that was deleted and created again
    is another one.
    """

    group: ResourceGroup
    version: int


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that the store holds, as one consistent-enough snapshot.

    ``faults`` names entries that could not be read (path to reason); an unreadable group keeps the
    last definition that could be read, so that a corrupt entry disturbs nothing else.
    """

    groups: Mapping[str, Versioned] = field(default_factory=dict)
    attachments: Attachments = field(default_factory=Attachments)
    faults: Mapping[str, str] = field(default_factory=dict)


ATTACHMENTS_MAX = 200_000
"""Owners of all kinds that may be attached; each sidecar knows all. PIP-82's sizing has 100,000."""


def check_allowed(group: ResourceGroup, by: Origin) -> None:
    """Accept an author who may attach to a group: a super-user, or an admin of a tenant that it allows.

    Raises:
        NotAllowed: a tenant's admin, whose tenant the group does not name.
    """
    if not by.is_super_user and by.tenant not in group.allowed_tenants:
        raise NotAllowed(group.name, by.tenant, by.actor)


class Anything(Enum):
    """Says of an expectation that there is none; None is taken: it means "not attached"."""

    ANYTHING = "anything"


ANYTHING = Anything.ANYTHING


class GroupStore(Protocol):
    """The durable definitions of groups and attachments, and the trail of their changes.

    A change and its audit entry are written together: there is none without the other. A write that
    changes nothing leaves no entry.
    """

    def watch(self, listener: Callable[[Catalogue], None]) -> None:
        """Call the listener with the whole catalogue now and after every change."""

    async def read_group(self, name: str) -> Versioned:
        """Read one group from the store itself, not from a cache.

        Raises:
            NotFound: there is no such group.
            StoreUnreachable: the store did not answer.
        """

    async def create_group(self, group: ResourceGroup, *, by: Origin = ANONYMOUS) -> Versioned:
        """Create a group.

        Raises:
            AlreadyExists: there is one of that name.
            NotFound: there is no group of its parent's name.
            StoreUnreachable: the store did not answer.
        """

    async def update_group(
        self, group: ResourceGroup, version: int, *, by: Origin = ANONYMOUS
    ) -> Versioned:
        """Replace a group's definition if it still has that version.

        Raises:
            NotFound: there is no such group, or none of its parent's name.
            VersionConflict: it has another version.
            StoreUnreachable: the store did not answer.
        """

    async def delete_group(
        self, name: str, *, version: int | None = None, by: Origin = ANONYMOUS
    ) -> None:
        """Delete a group, if a version is given only that one; atomic against an attachment and a child.

        Raises:
            NotFound: there is no such group.
            InUse: something is attached to it, or it is a parent.
            VersionConflict: it has another version.
            StoreUnreachable: the store did not answer.
        """

    async def attach(
        self,
        owner: TrafficOwner,
        group: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Attach an owner, replacing an earlier attachment, if one is expected only that one.

        What a super-user attached is his, also where a tenant's admin had attached it to the same group
        before. Where it was not written down who did (by an old release), it counts as his, too.

        Raises:
            ValueError: the owner or the group cannot have this name.
            NotFound: there is no such group.
            NotAllowed: the author is a tenant's admin, and the group does not name that tenant.
            Unreadable: the author is one, and the group's definition cannot be understood.
            Protected: a super-user attached it to another group, and this is none.
            VersionConflict: it was attached to something else than expected.
            StoreUnreachable: the store did not answer.
        """

    async def detach(
        self,
        owner: TrafficOwner,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Detach an owner; not attached is fine, unless something else is expected.

        Raises:
            ValueError: the owner cannot have this name.
            Protected: a super-user attached it, and this is none.
            VersionConflict: it was attached to something else than expected.
            StoreUnreachable: the store did not answer.
        """

    async def audit_entries(self, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        """The newest entries, newest first; with ``before`` only those with a smaller id.

        Raises:
            StoreUnreachable: the store did not answer.
        """

    async def audit_entry(self, entry_id: int) -> AuditEntry:
        """One entry.

        Raises:
            NotFound: there is none of this id, or none any more.
            StoreUnreachable: the store did not answer.
        """

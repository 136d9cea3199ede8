"""The trail of changes: who changed what, from what, to what."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.model import Rates, ResourceGroup


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a change comes from.

    Args:
        actor: the role that made it.
        address: the host it came from, if it came over the network.
        undoes: the audit entry that it rolls back, if it does.
        tenant: the tenant as whose admin the role acts; empty is a super-user. What a super-user
            attached or limited, a tenant's admin cannot undo, or the limit would be the tenant's to
            lift.
    """

    actor: str = "anonymous"
    address: str = ""
    undoes: int | None = None
    tenant: str = ""

    @property
    def is_super_user(self) -> bool:
        """Whether the role may do everything."""
        return not self.tenant


ANONYMOUS = Origin()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change of a definition, an attachment or a topic's limits.

    Args:
        id: grows with every change.
        at_ms: when, in milliseconds since 1970, by the store's own clock.
        origin: who made it.
        subject: ``groups/G``, ``tenants/T``, ``namespaces/T/N`` or ``topics/DOMAIN://T/N/TOPIC``.
        before: what was there: a definition, the name of the group that was attached to, or a topic's
            limits; None when there was nothing, or nothing that could be read.
        after: what is there since.
    """

    id: int
    at_ms: int
    origin: Origin
    subject: str
    before: ResourceGroup | Rates | str | None
    after: ResourceGroup | Rates | str | None


AUDIT_LENGTH = 1_000
"""Entries of super-users that the store keeps, and ten times those of a tenant's admins (shares)."""

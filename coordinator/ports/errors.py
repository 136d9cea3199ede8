"""The errors of ports: "refused" and "unreachable" are never one value.

Errors::

    PortError
    +-- Unreachable             no answer in time; nothing is known about the outcome
    |   +-- StoreUnreachable      of ZooKeeper
    |   +-- BrokerUnreachable     of the own broker's web service
    |   +-- GateGone              of the gate's process; the sidecar ends with it
    +-- Refused                 the store or the broker answered no
        +-- NotFound              there is no such entry
        +-- AlreadyExists         there is one already
        +-- VersionConflict       another writer changed it in between (compare-and-set failed)
        +-- InUse                 a group cannot be deleted while something belongs to it
        +-- Protected             a super-user made it so, and a tenant's admin may not change that
        +-- NotAllowed            a group does not allow a tenant, and its admin may not attach to it
        +-- Unreadable            there is an entry, but this release cannot understand it

The text of an `Unreachable` begins with its cause, so every log line and every answer names it. The bus
raises nothing: it drops reports, counts them, and its silence is a trouble (coordinator.core.lifecycle).
"""

from __future__ import annotations

from typing import ClassVar


class PortError(Exception):
    """Base of all errors of a port; never raised itself."""


class Unreachable(PortError):
    """No answer in time; nothing is known about the outcome. Only its subclasses are raised."""

    cause: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.cause} ({super().__str__()})"


class StoreUnreachable(Unreachable):
    """ZooKeeper did not answer in time."""

    cause = "ZooKeeper is out of reach"


class BrokerUnreachable(Unreachable):
    """The own broker's web service did not answer, or not the question."""

    cause = "The broker does not answer"


class GateGone(Unreachable):
    """The gate's process has ended or gives no sign of life; the sidecar ends with it."""

    cause = "The gate is gone"


class Refused(PortError):
    """The store or the broker answered no."""


class NotFound(Refused):
    """There is no such entry."""


class AlreadyExists(Refused):
    """There is such an entry already."""


class VersionConflict(Refused):
    """Another writer changed the entry in between."""


class InUse(Refused):
    """The group still has attachments or children."""


class Protected(Refused):
    """A super-user made it so, and a tenant's admin may not change that; the text may be shown.

    Args:
        what: was done by a super-user, to what.
        role: of the one who would change it.
    """

    def __init__(self, what: str, role: str) -> None:
        super().__init__(
            f"Role {role} is no super-user, and one {what}: only a super-user may change that"
        )


class NotAllowed(Refused):
    """A group does not allow a tenant, and its admin may not attach to it; the text may be shown.

    Args:
        group: the group.
        tenant: the tenant.
        role: of its admin.
    """

    def __init__(self, group: str, tenant: str, role: str) -> None:
        super().__init__(
            f"Role {role} acts for tenant {tenant}, which ResourceGroup {group} does not allow: a "
            f"super-user may attach to it, or add {tenant} to its allowedTenants"
        )


class Unreadable(Refused):
    """There is an entry, but this release cannot understand it."""

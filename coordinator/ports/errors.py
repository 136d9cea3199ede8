"""The errors of ports: "refused" and "unreachable" are never one value.

Errors::

    PortError
    +-- StoreUnreachable      the store did not answer in time; nothing is known about the outcome
    +-- GateGone              the gate's process has ended or does not answer; the sidecar ends by it
    +-- ReceiverUnreachable   the receiver of alarms did not take a message
    +-- Refused               the store answered no
        +-- NotFound          there is no such entry
        +-- AlreadyExists     there is one already
        +-- VersionConflict   another writer changed it in between (compare-and-set failed)
        +-- InUse             a group cannot be deleted while something is attached to it
        +-- Protected         a super-user made it so, and a tenant's admin may not change that
        +-- Unreadable        there is an entry, but this release cannot understand it
"""

from __future__ import annotations


class PortError(Exception):
    """Base of all errors of a port; never raised itself."""


class StoreUnreachable(PortError):
    """The store did not answer in time; nothing is known about the outcome."""


class GateGone(PortError):
    """The gate's process has ended or does not answer; the sidecar ends by it."""


class ReceiverUnreachable(PortError):
    """The receiver of alarms did not take a message, or the outcome is unknown."""


class Refused(PortError):
    """The store answered no."""


class NotFound(Refused):
    """There is no such entry."""


class AlreadyExists(Refused):
    """There is such an entry already."""


class VersionConflict(Refused):
    """Another writer changed the entry in between."""


class InUse(Refused):
    """The group still has attachments."""


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


class Unreadable(Refused):
    """There is an entry, but this release cannot understand it."""

"""What a port raises: "refused" and "unreachable" are never one value.

Errors::

    PortError
    +-- StoreUnreachable      the store did not answer in time; nothing is known about the outcome
    +-- GateGone              the gate's process has ended or does not answer; the sidecar ends by it
    +-- ReceiverUnreachable   whoever is told of alarms did not take a message
    +-- Refused               the store answered no
        +-- NotFound          there is no such entry
        +-- AlreadyExists     there is one already
        +-- VersionConflict   somebody else changed it in between (compare-and-set failed)
        +-- InUse             a group cannot be deleted while something is attached to it
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
    """Whoever is told of alarms did not take a message, or nobody knows."""


class Refused(PortError):
    """The store answered no."""


class NotFound(Refused):
    """There is no such entry."""


class AlreadyExists(Refused):
    """There is such an entry already."""


class VersionConflict(Refused):
    """Somebody else changed the entry in between."""


class InUse(Refused):
    """The group still has attachments."""


class Unreadable(Refused):
    """There is an entry, but this release cannot understand it."""

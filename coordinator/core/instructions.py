"""Orders of the core to the shell: its only output.

The runner carries out a batch in the order given. ``SetLocalLimits`` stands before ``PublishUsageReport``
on purpose: a report announces the limits in force and the grants, so a limit must be lowered before any
other broker learns of the room.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.model import AnyRates, EscrowRecord, UsageReport


@dataclass(frozen=True, slots=True)
class SetLocalLimits:
    """Enforce these rates for a group at this broker from now on.

    ``leased`` limits hold until the end of the lease that the last HoldLease named: the enforcer
    lets nothing pass after it, however late it checks.
    """

    group: str
    limits: AnyRates
    leased: bool = False


@dataclass(frozen=True, slots=True)
class RemoveLocalLimits:
    """Stop limiting a deleted group."""

    group: str


@dataclass(frozen=True, slots=True)
class HoldLease:
    """Leased limits hold until this time, on the clock whose time the core gets."""

    until_ns: int


@dataclass(frozen=True, slots=True)
class ConfirmSession:
    """Have a majority of the store confirm the session; the outcome, if any, is SessionConfirmed."""

    asked_ns: int


@dataclass(frozen=True, slots=True)
class PublishUsageReport:
    """Send this report on every bus topic."""

    report: UsageReport


@dataclass(frozen=True, slots=True)
class WriteEscrow:
    """Write this record over the version that it names, or create it if that is negative.

    The outcome is EscrowChanged, whichever writer wins.
    """

    record: EscrowRecord


@dataclass(frozen=True, slots=True)
class RemoveEscrow:
    """Remove the record of a deleted group. The outcome is EscrowChanged."""

    record: EscrowRecord


@dataclass(frozen=True, slots=True)
class JoinMembership:
    """Register this sidecar; the outcome is MembershipJoined."""


@dataclass(frozen=True, slots=True)
class LeaveMembership:
    """Deregister this sidecar at once, without waiting for the session to end."""


@dataclass(frozen=True, slots=True)
class DrainGate:
    """Accept nothing new, finish what is under way; the outcome is DrainCompleted."""


Instruction = (
    SetLocalLimits
    | RemoveLocalLimits
    | HoldLease
    | ConfirmSession
    | PublishUsageReport
    | WriteEscrow
    | RemoveEscrow
    | JoinMembership
    | LeaveMembership
    | DrainGate
)

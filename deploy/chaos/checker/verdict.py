"""All rules together, and how much they had to look at."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.chaos.checker import bounds, cores, footprint, messages, recovery
from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.history import Breach, History
from deploy.chaos.checker.recovery_window import recovery_windows


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The findings, and the amount of data that they rest on.

    Attributes:
        findings: rules that did not hold; none is what is hoped for.
        looked_at: for people: a run that shows nothing must be seen to.
        recovered: each mishap, and how many seconds after it all was as before; None for too long.
    """

    findings: tuple[Breach, ...]
    looked_at: str
    recovered: tuple[tuple[str, float | None], ...]


def judge(history: History) -> RunVerdict:
    """Hold a history against every rule."""
    counted = Counted(history)
    found = recovery_windows(history, counted)
    findings = (
        *messages.check(history, found),
        *bounds.check(history, counted, found),
        *recovery.check(history, counted, found),
        *footprint.check(history),
        *cores.check(history),
    )
    acknowledged = sum(
        sent.receipt_s is not None for topic in history.topics for sent in topic.sent
    )
    recovered = tuple((each.mishap.what, each.recovered_s) for each in found)
    looked_at = (
        f"{acknowledged:,} acknowledged messages, "
        f"{sum(len(topic.delivered) for topic in history.topics):,} deliveries, "
        f"{len(history.samples):,} readings of the brokers' counters, "
        f"{len(history.sweeps):,} rounds of questions to the sidecars, "
        f"{len(footprint.judged(history)):,} processes old enough to be judged, "
        f"{len(history.mishaps)} mishaps"
    )
    return RunVerdict(findings, looked_at, recovered)

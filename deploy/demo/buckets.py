"""The figures of a saturated run, after WSO2's protocol, from what the brokers counted.

The protocol (wso2/api-platform#2187) offers more than the limit for five minutes and adds up what passed
in buckets of 1, 5, 10 and 20 s, one after the other from the start. The figure is how far the worst one
is above what the limit allows in that time; WSO2 found +13.1 % with its nodes in step every 50 ms, and
+3.7 % every 10 ms.

Overshoot is half of the truth: a limiter that lets too little pass never overshoots. The other half is
the *latency regret*: how much longer a message waited than at one central bucket of the whole limit with
the same clients. A client that always has P messages under way waits P/A for one when A pass per second
(Little's law), and would wait P/C there; so of a mean wait w the part w (1 - A/C) is the regret. It
belongs to the second half of the run, in which the clients' queues are full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table

from coordinator.simulation.metrics import BUCKETS_S
from deploy.demo.curves import curves, total
from deploy.demo.recording import DemoRecording, Receipts, Wait

TARGETS: Final = dict(zip(BUCKETS_S, (0.01, 0.005, 0.003, 0.002), strict=True))
"""By the length of a bucket in seconds: how far above the limit the worst one may be."""
LARGEST_ERROR: Final = 0.01
"""The largest distance of the mean from the limit."""
_TELLING_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class BucketPeak:
    """The buckets of one length.

    Attributes:
        length_s: of each.
        buckets: how many there are.
        peak: the worst one over the limit, negative when all are below.
        over: how many are above the limit.
        waited_s: how long a process waited for a processor in the worst one and the second before it.
            What a broker could not count then it counts afterwards, when its gate has long let it pass.
    """

    length_s: int
    buckets: int
    peak: float
    over: int
    waited_s: float

    @property
    def met(self) -> bool:
        """Whether the worst bucket is within its target."""
        return self.peak <= TARGETS[self.length_s]


@dataclass(frozen=True, slots=True)
class SaturatedFigures:
    """A saturated run in figures.

    Attributes:
        limit: messages per second.
        seconds: whole seconds that were judged.
        peaks: by the length of the buckets.
        error: what passed in the second half over the limit, less one.
        latency_s: the mean wait of a message in the second half; None when no client told.
        regret_s: the part of it that one central bucket would have spared.
    """

    limit: int
    seconds: int
    peaks: tuple[BucketPeak, ...]
    error: float
    latency_s: float | None
    regret_s: float | None


def evaluate(recording: DemoRecording) -> SaturatedFigures:
    """Return the figures of a run of one act, from the moment at which its loads were started."""
    (act,) = recording.acts
    by_broker = curves(recording.samples, recording.misses)
    seconds = int(act.ended_s - act.happened_s)
    peaks = []
    for length_s in TARGETS:
        starts = [act.happened_s + n * length_s for n in range(seconds // length_s)]
        over = {start: total(by_broker, start, length_s) / act.limit - 1 for start in starts}
        worst = max(over, key=lambda start: over[start], default=act.happened_s)
        waited_s = _waited_s(recording.waits, worst - 1.0, worst + length_s)
        above = sum(part > 0 for part in over.values())
        peaks.append(BucketPeak(length_s, len(over), over.get(worst, -1.0), above, waited_s))
    half_s = seconds / 2
    passed = total(by_broker, act.happened_s + half_s, half_s)
    latency_s = _latency_s(recording.receipts, act.happened_s + half_s, act.ended_s)
    return SaturatedFigures(
        limit=act.limit,
        seconds=seconds,
        peaks=tuple(peaks),
        error=passed / act.limit - 1,
        latency_s=latency_s,
        regret_s=None if latency_s is None else latency_s * (1 - passed / act.limit),
    )


def summary(figures: SaturatedFigures) -> dict[str, Any]:
    """Return the figures as plain data: seconds, messages per second, and shares of 1."""
    return {
        "limit": figures.limit,
        "seconds": figures.seconds,
        "buckets": {
            f"{peak.length_s}_s": {
                "buckets": peak.buckets,
                "peak": round(peak.peak, 5),
                "over_limit": peak.over,
                "waited_seconds": round(peak.waited_s, 2),
                "target": TARGETS[peak.length_s],
            }
            for peak in figures.peaks
        },
        "aggregate_error": round(figures.error, 5),
        "latency_seconds": _rounded(figures.latency_s),
        "latency_regret_seconds": _rounded(figures.regret_s),
        "source": "broker msgInCounter; latency by the clients' receipts",
    }


def table(name: str, figures: SaturatedFigures) -> Table:
    """Return the table of one run."""
    drawn = Table(title=name, title_justify="left")
    drawn.add_column("buckets of")
    for column in ("buckets", "worst over the limit", "above the limit", "target", "met"):
        drawn.add_column(column, justify="right")
    for peak in figures.peaks:
        drawn.add_row(
            f"{peak.length_s} s",
            f"{peak.buckets}",
            f"{peak.peak:+.2%}",
            f"{peak.over}",
            f"<= {TARGETS[peak.length_s]:.1%}",
            "yes" if peak.met else "NO",
        )
    drawn.caption = (
        f"{figures.seconds} s saturated at {figures.limit:,} msg/s: {figures.error:+.2%} in the second"
        f" half.\n{_latency(figures)}"
    )
    drawn.caption_justify = "left"
    return drawn


def missed(figures: SaturatedFigures) -> list[str]:
    """Say of each missed target what came out."""
    said = [
        f"missed: the worst bucket of {peak.length_s} s {peak.peak:+.2%}, target"
        f" <= {TARGETS[peak.length_s]:.1%}"
        for peak in figures.peaks
        if not peak.met
    ]
    said += [
        f"buckets of {peak.length_s} s: this machine made a process wait for a processor for"
        f" {peak.waited_s:.2f} s in the worst one or just before it. What a broker counts late is then no"
        " message that passed too soon: the report has what the gates counted, second by second."
        for peak in figures.peaks
        if not peak.met and peak.waited_s >= _TELLING_S
    ]
    if abs(figures.error) > LARGEST_ERROR:
        said.append(f"missed: error of the sum {figures.error:+.2%}, target <= {LARGEST_ERROR:.0%}")
    return said


def _waited_s(waits: Sequence[Wait], from_s: float, until_s: float) -> float:
    return sum(max(0.0, min(until_s, wait.until_s) - max(from_s, wait.from_s)) for wait in waits)


def _latency_s(receipts: Sequence[Receipts], from_s: float, until_s: float) -> float | None:
    told = [each for each in receipts if from_s < each.at_s <= until_s and each.receipts]
    number = sum(each.receipts for each in told)
    if not number:
        return None
    return sum(each.latency_s * each.receipts for each in told) / number


def _latency(figures: SaturatedFigures) -> str:
    if figures.latency_s is None or figures.regret_s is None:
        return "No client told how long a message waits."
    return (
        f"A message waited {figures.latency_s * 1000:,.0f} ms, {figures.regret_s * 1000:+,.1f} ms against"
        " one central bucket with the same clients."
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 5)

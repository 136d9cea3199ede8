"""Hand-made recordings: brokers that admit at known rates, sampled as the demo samples them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploy.demo.recording import Act, DemoRecording, LimitChange, Sample

PERIOD_S = 0.2

#: From this second on the broker admits this many messages per second.
Rates = Sequence[tuple[float, float]]


def count(rates: Rates, at_s: float) -> float:
    """The messages that were admitted up to this second."""
    ends = [start for start, _ in rates[1:]] + [at_s]
    return sum(
        rate * max(0.0, min(end, at_s) - start)
        for (start, rate), end in zip(rates, ends, strict=True)
    )


def samples(
    broker: str,
    rates: Rates,
    until_s: float,
    *,
    from_s: float = 0.0,
    topic: str | None = None,
    took_s: float = 0.004,
) -> list[Sample]:
    """One life of a topic, which is loaded at `from_s`, sampled to the end."""
    steps = round((until_s - from_s) / PERIOD_S)
    moments = [from_s + step * PERIOD_S for step in range(steps + 1)]
    return [
        Sample(
            topic=topic or f"persistent://t/n/{broker}",
            broker=broker,
            sent_s=at_s - took_s / 2,
            answered_s=at_s + took_s / 2,
            messages=round(count(rates, at_s) - count(rates, from_s)),
            clients=1,
        )
        for at_s in moments
    ]


def act(
    from_s: float,
    to_s: float,
    demands: Mapping[str, int],
    *,
    event: str = "start",
    limit: int = 3_000,
    known_s: float | None = None,
) -> Act:
    """One act, known at once unless said otherwise."""
    return Act(event, event, from_s, from_s if known_s is None else known_s, to_s, limit, demands)


def recording(
    brokers: Mapping[str, Rates],
    acts: Sequence[Act],
    *,
    limits: Sequence[LimitChange] | None = None,
    killed_s: float | None = None,
) -> DemoRecording:
    """A run of brokers with one topic each, sampled a little beyond the last act."""
    until_s = acts[-1].ended_s + 2 * PERIOD_S
    return DemoRecording(
        samples=[s for name, rates in brokers.items() for s in samples(name, rates, until_s)],
        misses=(),
        acts=acts,
        limits=limits or (LimitChange(0.0, acts[0].limit),),
        killed_s=killed_s,
    )


def a_peers_run() -> DemoRecording:
    """One broker gets all, the other starves; the limit doubles; then the first is killed."""
    return recording(
        {"broker-1": [(0, 2900), (20, 5900), (40, 0)], "broker-2": [(0, 100), (40, 3000)]},
        [
            act(0, 20, {"broker-1": 4000, "broker-2": 4000}),
            act(20, 40, {"broker-1": 8000, "broker-2": 4000}, limit=6_000, event="raise"),
            act(40, 60, {"broker-2": 4000}, limit=6_000, event="kill", known_s=44),
        ],
        limits=(LimitChange(0.0, 3_000), LimitChange(20.0, 6_000)),
        killed_s=40.0,
    )

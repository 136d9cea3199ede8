"""The gate in front of a real broker, under Pulsar's own load tool, beside the broker alone.

``direct`` is the broker on its internal listener, ``bare`` a pass-through that looks at nothing (see
`gate_process`), the gate checks every limit and reaches none. All take turns against one broker, and the
load tool shares the machine with them, so a figure is a ratio to ``direct`` of the same run, best round
to best round, because what else runs on a machine only ever takes away. Latency is compared within each
round, and the figure is the median of five: a single pause of a collector moves a round's percentile. A
broker compiles as it goes: each kind of load runs once more, uncounted, before. A backlog is consumed in
three seconds, of which the load tool compiles for most; of five rounds direct ones had 112,000 to 181,000
messages a second, so that figure is the ratio of medians.
"""

from __future__ import annotations

import operator
import re
import statistics
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Figure, Measurement
from benchmarks.gate_process import TENANT, running
from benchmarks.one_broker import one_broker
from deploy.local.cluster import Cluster
from deploy.local.state import Broker

ROUNDS: Final = 2
PAIRED_ROUNDS: Final = 5
SECONDS: Final = 10
HALF_LOAD: Final = 30_000
BACKLOG: Final = 400_000
_CONTENDERS: Final = ("direct", "bare", "gate")
_AS_FAST_AS_IT_GOES: Final = 1_000_000
_NAMESPACE: Final = f"{TENANT}/limited"

_THROUGHPUT: Final = re.compile(
    r"Aggregated throughput stats --- (\d+) records (sent|received) --- ([\d.]+) msg/s"
)
_LATENCY: Final = re.compile(
    r"Aggregated latency stats --- .*?mean: *([\d.]+) ms.*?99pct: *([\d.]+)"
)


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The load tool's last words.

    Args:
        rate: messages per second.
        mean_ms: mean latency of a publish, in milliseconds; 0 of consuming.
        p99_ms: its 99th percentile.
    """

    rate: float
    mean_ms: float
    p99_ms: float


class GateBench:
    """A cluster of one broker, and the load tool."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._broker: Broker = cluster.brokers[0]

    def rounds(
        self, name: str, arguments: Sequence[str], count: int = ROUNDS
    ) -> list[dict[str, LoadOutcome]]:
        """Run every contender once per round, each on topics of its own."""
        self.perf(self._direct_url, (*arguments, f"persistent://{_NAMESPACE}/{name}-before"))
        found = []
        for number in range(count):
            outcomes = {}
            for contender in _CONTENDERS:
                topic = f"persistent://{_NAMESPACE}/{name}-{number}-{contender}"
                outcomes[contender] = self._run(contender, (*arguments, topic))
            found.append(outcomes)
        return found

    def fill(self, topic: str) -> None:
        """Put a backlog of batched messages into a topic."""
        subscribe = ("consume", "-ss", "first", "-time", "1", topic)
        self.perf(self._direct_url, subscribe)
        produce = ("produce", "-r", "100000", "-s", "1024", "-m", str(BACKLOG), topic)
        self.perf(self._direct_url, produce)

    def consume(self, topic: str, subscription: str, contender: str) -> LoadOutcome:
        """Consume the whole backlog with a subscription of its own."""
        options = ("-ss", subscription, "-sp", "Earliest", "-m", str(BACKLOG))
        return self._run(contender, ("consume", *options, topic))

    @property
    def _direct_url(self) -> str:
        return f"pulsar://127.0.0.1:{self._broker.broker_port}"

    def _run(self, contender: str, arguments: Sequence[str]) -> LoadOutcome:
        broker = self._broker
        if contender == "direct":
            between, url = nullcontext(), self._direct_url
        else:
            between = running(contender, broker.gate_port, broker.gate_upstream_port)  # type: ignore[assignment]
            url = f"pulsar://127.0.0.1:{broker.gate_port}"
        with between:
            return _outcome(self.perf(url, arguments))

    def perf(self, url: str, arguments: Sequence[str]) -> str:
        """Run the load tool; return what it says."""
        command = self._cluster.tool_command("perf", arguments, broker_url=url)
        done = subprocess.run(  # noqa: S603 - the launcher's own command
            command, check=False, capture_output=True, text=True, timeout=300
        )
        return done.stdout + done.stderr


def _outcome(output: str) -> LoadOutcome:
    throughput, latency = _THROUGHPUT.search(output), _LATENCY.search(output)
    if throughput is None:
        raise RuntimeError(f"the load tool ended early:\n{output[-2000:]}")
    mean, p99 = (0.0, 0.0) if latency is None else map(float, latency.groups())
    # Of producing the tool counts the ten seconds of its own end, too.
    sends = throughput[2] == "sent"
    return LoadOutcome(int(throughput[1]) / SECONDS if sends else float(throughput[3]), mean, p99)


def _half_load(bench: GateBench) -> Iterator[Figure]:
    options = ("-r", str(HALF_LOAD), "-s", "1024", "-time", str(SECONDS))
    rounds = bench.rounds("half", ("produce", *options), PAIRED_ROUNDS)
    share = {name: max(found[name].rate for found in rounds) / HALF_LOAD for name in _CONTENDERS}
    ours = share.pop("gate")
    yield Figure("gate/broker-half-load/share-that-passes", ours, "", "higher", share, 0.99)
    for what, target in (("mean_ms", 0.3), ("p99_ms", 2.0)):
        latency = {name: [getattr(found[name], what) for found in rounds] for name in _CONTENDERS}
        direct = latency["direct"]
        added = {
            name: statistics.median(map(operator.sub, latency[name], direct))
            for name in ("bare", "gate")
        }
        figure = f"gate/broker-half-load/added-{what.removesuffix('_ms')}-latency"
        peers = {"bare": added["bare"], "direct, in all": statistics.median(direct)}
        yield Figure(figure, added["gate"], "ms", "lower", peers, target)


def _saturated(
    bench: GateBench, kind: str, options: Sequence[str], target: float
) -> Iterator[Figure]:
    arguments = ("produce", "-r", str(_AS_FAST_AS_IT_GOES), "-time", str(SECONDS), *options)
    yield from _ratio(f"publish-{kind}", bench.rounds(kind, arguments), target)


def _consume(bench: GateBench) -> Iterator[Figure]:
    topic = f"persistent://{_NAMESPACE}/backlog"
    bench.fill(topic)
    rounds = [
        {name: bench.consume(topic, f"{name}-{number}", name) for name in _CONTENDERS}
        for number in range(PAIRED_ROUNDS)
    ]
    yield from _ratio("consume", rounds, 0.88, statistics.median)


def _ratio(
    name: str,
    rounds: list[dict[str, LoadOutcome]],
    target: float,
    of_rounds: Callable[[Iterable[float]], float] = max,
) -> Iterator[Figure]:
    rate = {name: of_rounds([found[name].rate for found in rounds]) for name in _CONTENDERS}
    peers = {"bare": rate["bare"] / rate["direct"], "direct, msg/s": rate["direct"]}
    figure = f"gate/broker-saturated/{name}-of-direct"
    yield Figure(figure, rate["gate"] / rate["direct"], "", "higher", peers, target)


def broker() -> Iterator[Figure]:
    """Half load and saturated, batched and not, and consuming."""
    with one_broker(_NAMESPACE) as cluster:
        bench = GateBench(cluster)
        yield from _half_load(bench)
        yield from _saturated(bench, "unbatched", ("-s", "100", "-db"), 0.90)
        yield from _saturated(bench, "batched", ("-s", "1024"), 0.88)
        yield from _consume(bench)


MEASUREMENTS: Mapping[str, Measurement] = {"gate/broker": broker}

"""Where runs are played: one cluster for many of them, and a directory for what they leave behind.

Of the directory, ``cluster`` is the servers', ``run`` belongs to the run that is played or was the last
one, and ``kept`` has the last runs that were not clean, with the servers' logs. What servers write grows
by about 30 MB a run, so no cluster has more than ten: however many runs there are, the disk has no more
than 0.3 GB of them, and as much for each that is kept at the very most.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pulsar

from deploy.chaos import LISTENERS
from deploy.chaos.checker.history import History
from deploy.chaos.checker.verdict import RunVerdict, judge
from deploy.chaos.choices import Choice
from deploy.chaos.run import ChaosRun
from deploy.chaos.testbed import INTERVAL_S, Testbed
from deploy.local import readiness
from deploy.local.cluster import Cluster
from deploy.local.errors import LocalClusterError
from deploy.local.layout import ClusterOptions

_MOST_KEPT = 10
_MOST_RUNS = 10
_ZOOKEEPERS = 3
#: For servers that have been ready for long.
_READY_WITHIN_S = 20.0


class ClusterEnvironment:
    """A cluster that is started when the first run needs it.

    Args:
        directory: for all that is written.
        tell: called with a line for people whenever something happens.
    """

    def __init__(self, directory: Path, tell: Callable[[str], None]) -> None:
        self._directory = directory
        self._tell = tell
        self._cluster: Cluster | None = None
        #: On this cluster.
        self._runs = 0

    @property
    def _run(self) -> Path:
        return self._directory / "run"

    def prepare(self) -> None:
        """Start the servers, anew if one of them is not ready or they have had their runs."""
        if self._cluster is not None and not _all_ready(self._cluster):
            self._tell("a server is not ready")
            self.stop()
        if self._runs == _MOST_RUNS:
            self.stop()
        if self._cluster is None:
            self._tell("starting three ZooKeepers, a bookie and three brokers")
            self._cluster = Cluster.start(
                ClusterOptions(
                    state_dir=self._directory / "cluster",
                    zookeepers=_ZOOKEEPERS,
                    listeners=LISTENERS,
                    # Native enforcement needs it; beside gates nothing uses it.
                    own_resource_groups=True,
                    resource_group_interval_s=INTERVAL_S,
                )
            )

    def play(self, choice: Choice) -> RunVerdict:
        """Play a run, and judge what was seen."""
        assert self._cluster is not None, "a run needs servers"
        self._runs += 1
        shutil.rmtree(self._run, ignore_errors=True)
        self._run.mkdir(parents=True)
        try:
            chosen = (choice.policy, choice.seed)
            with Testbed(self._cluster, self._run, *chosen, path=choice.path) as testbed:
                until_s = time.monotonic() + 60 * choice.minutes
                history = ChaosRun(testbed, self._tell).play(
                    choice.planned, until_s, choice.every_s
                )
        except (OSError, pulsar.PulsarException) as error:
            raise LocalClusterError(f"The bench itself failed: {error!r}") from error
        _write(history, self._run / "history.json")
        return judge(history)

    def keep(self, choice: Choice) -> str:
        """Move what the run has left behind to where the next one does not remove it."""
        kept = self._directory / "kept"
        place = kept / f"seed-{choice.seed}-{choice.policy}-{choice.path}"
        shutil.rmtree(place, ignore_errors=True)
        kept.mkdir(exist_ok=True)
        self._run.rename(place)
        if self._cluster is not None:
            shutil.copytree(self._cluster.state_dir / "logs", place / "servers")
        for old in sorted(kept.iterdir(), key=lambda each: each.stat().st_mtime)[:-_MOST_KEPT]:
            shutil.rmtree(old)
        return str(place)

    def stop(self) -> None:
        """Stop the servers and remove what they wrote."""
        cluster, self._cluster, self._runs = self._cluster, None, 0
        if cluster is not None:
            cluster.stop()


def _all_ready(cluster: Cluster) -> bool:
    try:
        readiness.wait_until_ready(cluster.state.servers, _READY_WITHIN_S)
    except LocalClusterError:
        return False
    return True


def _write(history: History, file: Path) -> None:
    """Write down what the verdict is made from; the messages are in the clients' own files."""
    seen = asdict(replace(history, topics=()))
    file.write_text(json.dumps(seen, default=sorted) + "\n")

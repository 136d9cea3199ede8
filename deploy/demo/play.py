"""One run from nothing to nothing: start a cluster and a system, tell the story, stop everything.

What is started is stopped in the opposite order, whatever happens in between; only the logs stay. With
`keep`, and only after a story that was told to its end, all of it is left running.
"""

from __future__ import annotations

import dataclasses
import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from rich.console import Console

from deploy.demo.counters import CounterSampler
from deploy.demo.dispatch import DispatchScene
from deploy.demo.frame import FrameMaker
from deploy.demo.receipts import read_receipts
from deploy.demo.recording import DemoRecording
from deploy.demo.screen import Screen
from deploy.demo.story import DEMANDS, LIMIT, Story, load_of
from deploy.demo.system import System
from deploy.demo.turns import TurnWitness
from deploy.demo.warmup import WarmUp
from deploy.local import state
from deploy.local.addresses import LOOPBACK
from deploy.local.cluster import Cluster
from deploy.local.errors import WrongUseError
from deploy.local.layout import ClusterOptions
from deploy.local.programs import Programs


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """The choices about a run, whichever system it is played on.

    Attributes:
        pulsar: version of the brokers.
        host: the loopback address of the cluster and the sidecars.
        policy: how the group's limit is handed from broker to broker; the peer has no choice.
        keep: leave everything running at the end.
        story: what is told.
        act_s: how long an act of it lasts after its event is known, in seconds.
    """

    pulsar: str
    policy: str
    host: str = LOOPBACK
    keep: bool = False
    story: type[Story] = Story
    act_s: float = 20.0


def play(console: Console, kind: type[System], directory: Path, chosen: Chosen) -> DemoRecording:
    """Play the story on a system of this kind and return what was recorded.

    Args:
        console: for what is shown meanwhile.
        kind: ours or the peer.
        directory: for the cluster and the logs; what an earlier run left there is removed.
        chosen: the rest.

    Raises:
        WrongUseError: something runs from this directory.
        LocalClusterError: the cluster failed, or the story could not be told to its end.
    """
    _clear(directory)
    console.print(f"{kind.name}: starting a cluster of three brokers, Pulsar {chosen.pulsar}")
    with ExitStack() as stack:
        options = ClusterOptions(
            state_dir=directory / "cluster",
            pulsar=chosen.pulsar,
            host=chosen.host,
            own_resource_groups=kind.own_resource_groups,
            resource_group_interval_s=kind.resource_group_interval_s,
            # Three Javas that compile in full take both processors, and stand still in between.
            quick=True,
        )
        cluster = stack.enter_context(Cluster.start(options))
        programs = Programs(directory)
        stack.callback(programs.stop)
        system = kind(cluster, programs, directory, chosen.policy)
        stack.callback(system.close)
        topics = system.set_up(LIMIT)
        console.print(f"{kind.name}: warming the brokers up")
        warm_up = WarmUp(system)
        warm_up.all_brokers()
        recording = _tell(console, system, topics, warm_up, chosen)
        if chosen.story.ends_with_dispatch and system.limits_dispatch:
            for broker in topics:
                programs.end(load_of(broker))
            show = partial(console.print, soft_wrap=True, highlight=False)
            scene = DispatchScene(system, show).play()
            recording = dataclasses.replace(recording, dispatch=scene)
            if chosen.keep:
                for broker, topic in topics.items():
                    system.start_load(load_of(broker), topic, DEMANDS[broker])
        if chosen.keep:
            stack.pop_all()
    return recording


def stop(directory: Path) -> bool:
    """Stop what an earlier run left running in this directory; return whether there was anything."""
    cluster = directory / "cluster"
    if not state.file_of(cluster).exists():
        return False
    Programs.left_in(directory).stop()
    Cluster(cluster).stop()
    return True


def _tell(
    console: Console, system: System, topics: dict[str, str], warm_up: WarmUp, chosen: Chosen
) -> DemoRecording:
    web_urls = {name: broker.web_url for name, broker in system.brokers.items()}
    with CounterSampler(web_urls, list(topics.values())) as sampler, TurnWitness() as witness:
        story = chosen.story(system, topics, sampler, warm_up.again, chosen.act_s)
        screen = Screen(
            console,
            FrameMaker(system, story, sampler),
            system=system.name,
            addresses=system.addresses,
            acts=story.acts,
        )
        with screen:
            recording = story.tell()
        logs = {broker: system.programs.log_file(load_of(broker)) for broker in topics}
        return dataclasses.replace(recording, waits=witness.waits, receipts=read_receipts(logs))


def _clear(directory: Path) -> None:
    """Make an empty directory for a run.

    Raises:
        WrongUseError: an earlier run is still in it.
    """
    if state.file_of(directory / "cluster").exists() or Programs.left_in(directory).any:
        raise WrongUseError(
            f"A demo runs in {directory}, or was killed there. Stop what is left of it with: "
            f"python -m deploy.demo --stop --state-dir {directory.parent}"
        )
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)

"""A cluster on ::1 with sidecars, under load: `python -m tests.integration.on_ipv6 DIRECTORY`.

It is a program, since it needs another /etc/hosts than the tests have (`tests.own_hosts`). One line of
JSON says what the brokers took in, and where processes of the cluster listened.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from deploy.local import processes
from deploy.local.addresses import LOOPBACK_6
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from tests.integration.windows import Rates
from tests.integration.world import TENANT, World, eventually, make_world
from tests.pulsar_version import pulsar_version

LIMIT = 400
#: Columns of /proc/net/tcp and tcp6, and the state of a socket that listens.
_LOCAL, _STATE, _INODE = 1, 3, 9
_LISTENS = "0A"


@dataclass(frozen=True)
class Seen:
    """A run of the program, as it is printed.

    Args:
        rates: messages per second of each broker, in windows that follow one another.
        listening: the address of each socket that listens, as the kernel writes it.
        limit_of: the local limit of each broker.
    """

    rates: list[Rates]
    listening: list[str]
    limit_of: dict[str, int]


def main(directory: Path) -> None:
    """Start everything, offer more than the limit at both brokers, print what was seen, stop."""
    options = ClusterOptions(
        state_dir=directory / "cluster",
        brokers=2,
        host=LOOPBACK_6,
        pulsar=pulsar_version(),
        quick=True,
    )
    with (
        Cluster.start(options) as cluster,
        Sidecars(cluster, directory) as sidecars,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        sidecars.start()
        world = make_world(cluster, sidecars, http, f"{TENANT}/ipv6")
        world.limit(publishRateInMsgs=LIMIT)
        with world.load(dict.fromkeys(world.topic_of, 2 * LIMIT)):
            half = dict.fromkeys(world.topic_of, LIMIT // 2)
            eventually(lambda: _limits(world) == half, "half for each", last=lambda: _limits(world))
            world.comes_to(lambda rates: sum(rates.values()) > LIMIT * 0.95, "the limit", windows=1)
            seen = Seen(world.windows(5), list(_listening(world)), _limits(world))
    sys.stdout.write(json.dumps(asdict(seen)))


def _limits(world: World) -> dict[str, int]:
    return {name: world.local_limit(name) for name in world.topic_of}


def _listening(world: World) -> Iterator[str]:
    """The addresses at which the cluster and its sidecars listen."""
    pids = [server.pid for server in world.cluster.state.servers if server.pid is not None]
    pids += [world.sidecars.pid(name) for name in world.topic_of]
    own = {
        each for pid in pids for member in processes.family(pid) for each in _sockets(member.pid)
    }
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[_STATE] == _LISTENS and f"socket:[{fields[_INODE]}]" in own:
                yield fields[_LOCAL].partition(":")[0]


def _sockets(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            yield str(descriptor.readlink())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

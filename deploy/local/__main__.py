"""The command line: `python -m deploy.local COMMAND`.

Exit codes: 0 done, 1 failed, 2 wrong use or a missing program. Progress and errors go to standard
error, answers to standard output, so `--json` can be piped.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.local import jars
from deploy.local.addresses import LOOPBACKS
from deploy.local.cluster import Cluster, default_state_dir
from deploy.local.errors import exit_code
from deploy.local.layout import ClusterOptions
from deploy.local.requirements import find_java
from deploy.local.state import ClusterState, Server


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    return exit_code(lambda: options.run(options), interrupted="interrupted")


def _up(options: argparse.Namespace) -> int:
    cluster = Cluster.start(
        ClusterOptions(
            state_dir=options.state_dir,
            brokers=options.brokers,
            zookeepers=options.zookeepers,
            host=options.host,
            pulsar=options.pulsar,
            own_resource_groups=options.own_resource_groups,
            resource_group_interval_s=options.resource_group_interval,
            broker_settings=dict(options.set),
            listeners=options.listener,
        )
    )
    _show(cluster.state, as_json=options.json)
    return 0


def _down(options: argparse.Namespace) -> int:
    _cluster(options).stop(keep=options.keep)
    return 0


def _status(options: argparse.Namespace) -> int:
    state = _cluster(options).state
    _show(state, as_json=options.json)
    return 0 if all(server.alive for server in state.servers) else 1


def _kill(options: argparse.Namespace) -> int:
    _cluster(options).kill(options.name, options.signal)
    return 0


def _start(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    cluster.start_server(options.name)
    _show(cluster.state, as_json=options.json)
    return 0


def _restart(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    cluster.restart(options.name)
    _show(cluster.state, as_json=options.json)
    return 0


def _admin(options: argparse.Namespace) -> int:
    command = _cluster(options).tool_command("admin", options.arguments, web_url=options.url)
    return subprocess.run(command, check=False).returncode


def _client(options: argparse.Namespace) -> int:
    command = _cluster(options).tool_command("client", options.arguments, broker_url=options.url)
    return subprocess.run(command, check=False).returncode


def _perf(options: argparse.Namespace) -> int:
    command = _cluster(options).tool_command("perf", options.arguments, broker_url=options.url)
    return subprocess.run(command, check=False).returncode


def _jars(options: argparse.Namespace) -> int:
    find_java(os.environ)
    root = jars.cache_root(os.environ)
    found = {
        "pulsar": str(jars.server_jars(options.pulsar, root)),
        "tools": str(jars.tool_jars(root)),
        "compiler": str(jars.compiler_jars(root)),
    }
    print(json.dumps(found, indent=2) if options.json else "\n".join(found.values()))
    return 0


def _cluster(options: argparse.Namespace) -> Cluster:
    return Cluster(options.state_dir or default_state_dir())


def _show(state: ClusterState, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(state.to_dict(), indent=2))
        return
    print(f"Pulsar {state.pulsar_version}, started {state.started}, in {state.state_dir}")
    print(f"ZooKeeper {state.zookeeper_connect}")
    for server in (*state.zookeepers, state.bookie):
        print(f"{server.name:12}{_pid(server)}  port {server.port}")
    for broker in state.brokers:
        print(
            f"{broker.name:12}{_pid(broker)}  {broker.service_url}  "
            f"{broker.web_url}  sidecar: listens {broker.gate_port}, "
            f"connects {broker.gate_upstream_port}, admin {broker.admin_port}"
        )


def _pid(server: Server) -> str:
    return f"pid {server.pid:<8}" if server.alive else "stopped     "


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _signal(text: str) -> signal.Signals:
    try:
        return signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a signal") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.local", description="A real Pulsar cluster on this machine."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--state-dir", type=Path, help=f"default: {default_state_dir()}")
    common.add_argument("--json", action="store_true", help="answer in JSON")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, parents=[common], help=text, description=text)
        added.set_defaults(run=run)
        return added

    _add_up_options(command("up", _up, "start a cluster and wait until it is ready"))
    down = command("down", _down, "stop the cluster and remove its data")
    down.add_argument("--keep", action="store_true", help="keep data and logs")
    command("status", _status, "show processes and addresses; exit 1 unless all run")
    kill = command("kill", _kill, "send a signal to one server")
    kill.add_argument("--signal", type=_signal, default=signal.SIGKILL, help="default: KILL")
    for one in (
        kill,
        command("start", _start, "start one server that was killed"),
        command("restart", _restart, "end one server and start it again"),
    ):
        one.add_argument("name", help="zookeeper, bookie, broker-1, ...")
    for name, run, what in (
        ("admin", _admin, "web service URL"),
        ("client", _client, "Pulsar service URL"),
        ("perf", _perf, "Pulsar service URL"),
    ):
        tool = command(name, run, f"run the real pulsar-{name}")
        tool.add_argument("--url", help=f"{what}; default: of broker-1")
        tool.add_argument("arguments", nargs=argparse.REMAINDER)
    fetch = command("jars", _jars, "only fetch what a cluster needs")
    fetch.add_argument("--pulsar", default=jars.DEFAULT_PULSAR, help=_VERSIONS)
    return parser


_VERSIONS = f"default: {jars.DEFAULT_PULSAR}; tried: {', '.join(jars.TRIED_PULSARS)}"


def _add_up_options(up: argparse.ArgumentParser) -> None:
    defaults = ClusterOptions()
    up.add_argument("--brokers", type=int, default=defaults.brokers)
    up.add_argument("--zookeepers", type=int, default=defaults.zookeepers, help="1 or 3")
    up.add_argument(
        "--host", choices=LOOPBACKS, default=defaults.host, help="all of it; default: 127.0.0.1"
    )
    up.add_argument("--pulsar", default=defaults.pulsar, help=_VERSIONS)
    up.add_argument(
        "--own-resource-groups",
        action="store_true",
        help="let Pulsar's own resource groups work, for comparison",
    )
    up.add_argument(
        "--resource-group-interval",
        type=int,
        default=defaults.resource_group_interval_s,
        metavar="SECONDS",
    )
    up.add_argument(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of broker.conf; may be repeated",
    )
    up.add_argument(
        "--listener",
        action="append",
        default=[],
        metavar="NAME",
        help="one more advertised listener, at a port kept free for a proxy; may be repeated",
    )


if __name__ == "__main__":
    sys.exit(main())

"""The command line: `python -m deploy.demo`, which is what `make demo` runs.

POLICY in the environment is the group's overshoot policy, balanced if it is not set. ENFORCE=native
leaves the gates out and steers the brokers' own limiter. PULSAR is the version of the brokers, such as
5.0.0-M1. STORY=saturated offers more than the limit for five minutes, or MINUTES, and judges what passed
in buckets of 1, 5, 10 and 20 s. PEER=1 plays the same story afterwards on
Pulsar's own resource groups. KEEP=1 leaves the cluster, the sidecars and the load running; `--stop` ends
them. Exit codes: 0 every target met, 1 a target was missed or the story failed, 2 wrong use or a missing
program.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.columns import Columns
from rich.console import Console

from coordinator.core.transfer.policies import STRICT
from deploy import command_line
from deploy.demo import play, report, summary
from deploy.demo.native import NativeSidecars
from deploy.demo.peer import PulsarGroups
from deploy.demo.play import Chosen
from deploy.demo.recording import DemoRecording
from deploy.demo.sidecars import SidecarCluster, recorded_in
from deploy.demo.stories import ChosenStory, JudgedRun, chosen_story
from deploy.demo.system import System
from deploy.local.addresses import LOOPBACK, LOOPBACKS
from deploy.local.errors import WrongUseError, exit_code

#: What ENFORCE can be, and who enforces then.
_PATHS: Final[Mapping[str, type[System]]] = {"gate": SidecarCluster, "native": NativeSidecars}

_OUTPUT = Path(__file__).parents[2] / "demo-out"
#: Of output that is no terminal's: room for two tables side by side.
_PLAIN_WIDTH = 200


def main(arguments: list[str] | None = None) -> int:
    """Play the story and return the exit code."""
    options = _parser().parse_args(arguments)
    peer, keep = (os.environ.get(name, "") not in ("", "0") for name in ("PEER", "KEEP"))
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)

    def work() -> int:
        if options.stop:
            return _stop(options.state_dir)
        kind = _PATHS[command_line.enforcement_path(_PATHS)]
        policy = command_line.policy()
        if kind is NativeSidecars and policy == STRICT:
            raise WrongUseError(
                "POLICY=strict: brokers' own limiters cannot keep it; use balanced."
            )
        told = chosen_story()
        chosen = Chosen(command_line.pulsar(), policy, options.host, keep, told.story, told.act_s)
        return _demo(console, kind, options.state_dir, chosen, told, peer=peer)

    return exit_code(work)


def _demo(
    console: Console,
    kind: type[System],
    state_dir: Path,
    chosen: Chosen,
    told: ChosenStory,
    *,
    peer: bool,
) -> int:
    if peer and chosen.keep:
        raise WrongUseError("PEER and KEEP: two clusters at once would measure each other.")
    ours, _ = _play(console, kind, state_dir, chosen, told, suffix="")
    tables = [ours.table(f"{kind.name}, {chosen.policy}, Pulsar {chosen.pulsar}")]
    played: DemoRecording | None = None
    if peer:
        theirs, played = _play(console, PulsarGroups, state_dir, chosen, told, suffix="-peer")
        tables.append(theirs.table(PulsarGroups.name))
    console.print(Columns(tables))
    console.print("Computing the convergence report of what the sidecars recorded")
    recorded = recorded_in(_directory(state_dir, kind))
    beside = report.keep_peer(played, _OUTPUT) if played is not None else None
    made = report.make(recorded, _OUTPUT, report.conditions_of(kind.targets), beside)
    console.print(made, soft_wrap=True, highlight=False)
    console.print("The report knows whole seconds; the verdict is what the brokers counted, above.")
    console.print(f"Summary, and the counters that it was computed from: {_OUTPUT}")
    console.print(f"Logs: {state_dir}")
    if chosen.keep:
        stop = f"{sys.executable} -m deploy.demo --stop --state-dir {state_dir}"
        # Not broken into lines, so that it can be copied.
        console.print(f"All of it still runs. To stop it: {stop}", soft_wrap=True, highlight=False)
    for line in ours.missed:
        console.print(line, soft_wrap=True, highlight=False)
    return 1 if ours.missed else 0


def _stop(state_dir: Path) -> int:
    stopped = [
        play.stop(_directory(state_dir, kind))
        for kind in (SidecarCluster, NativeSidecars, PulsarGroups)
    ]
    if not any(stopped):
        raise WrongUseError(f"Nothing was left running in {state_dir}.")
    return 0


def _play(
    console: Console,
    kind: type[System],
    state_dir: Path,
    chosen: Chosen,
    told: ChosenStory,
    *,
    suffix: str,
) -> tuple[JudgedRun, DemoRecording]:
    recording = play.play(console, kind, _directory(state_dir, kind), chosen)
    verdict = told.judge(recording, kind.targets)
    summary.write(verdict.summary, recording, _OUTPUT, suffix)
    return verdict, recording


def _directory(state_dir: Path, kind: type[System]) -> Path:
    return state_dir.absolute() / kind.__name__.lower()


def _parser() -> argparse.ArgumentParser:
    default = Path(tempfile.gettempdir()) / f"pulsar-quota-demo-{os.getuid()}"
    parser = argparse.ArgumentParser(
        prog="python -m deploy.demo", description="A real cluster under load, and how it is held."
    )
    parser.add_argument(
        "--state-dir", type=Path, default=default, help=f"cluster and logs; default: {default}"
    )
    parser.add_argument(
        "--host", choices=LOOPBACKS, default=LOOPBACK, help="of all servers; default: 127.0.0.1"
    )
    parser.add_argument("--stop", action="store_true", help="end what KEEP=1 left running")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The end of the demo: what the sidecars recorded, and the convergence report made of it.

The report is made by the command that an operator would use, in a process of its own: Spark wants a JVM
and a gigabyte that the demo has no other use for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from deploy.demo import peer_tables, targets
from deploy.demo.recording import DemoRecording
from deploy.local.errors import LocalClusterError

_TIMEOUT_S = 600.0
#: The demo's targets, as far as whole seconds can be held to them. The report counts those from the one
#: in which a gate saw the producer; its broker counts it up to a second later, as it loads the topic
#: first. What the brokers' counters show, in windows that begin at any moment, is the demo's verdict.
_RESOLUTION_S = 1.0
_CONDITIONS = (
    f"settle_s<={targets.GATE.settle_s + _RESOLUTION_S:g},peak_1s<={targets.GATE.peak:g},"
    f"jain>={targets.LEAST_JAIN:g},min_share>={targets.LEAST_SHARE:g},"
    f"reclaim_s<={targets.GATE.reclaim_s:g}"
)


def conditions_of(judged: targets.Targets) -> str:
    """Return what the report is to fail on; empty is nothing.

    Nothing where brokers let a part pass as their seconds begin: a poll of their counters cuts the
    report's seconds elsewhere.
    """
    return "" if judged.peak is None else _CONDITIONS


def keep_peer(played: DemoRecording, output: Path) -> Path:
    """Write what was seen of the peer as tables, replacing those of an earlier run; return where."""
    kept = output / "recorded-peer"
    shutil.rmtree(kept, ignore_errors=True)
    peer_tables.write(played, kept, time.time() - time.monotonic())
    return kept


def make(recorded: Path, output: Path, conditions: str, peer: Path | None = None) -> str:
    """Keep what was recorded, make the report of it, and return its one screen of text.

    Args:
        recorded: what the sidecars wrote.
        output: becomes the parent of ``recorded`` and ``report``, replacing those of an earlier run.
        conditions: what it is to fail on; empty is nothing.
        peer: tables of the peer, to be shown beside.

    Raises:
        LocalClusterError: there is no report; what the command said is in the message.
    """
    kept, report = output / "recorded", output / "report"
    for directory in (kept, report):
        shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(recorded, kept)
    command = [sys.executable, "-m", "coordinator.cli", "report", str(kept)]
    command += ["--out", str(report)]
    command += ["--fail-on", conditions] if conditions else []
    command += ["--peer", str(peer)] if peer is not None else []
    try:
        made = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LocalClusterError(f"No report of {kept} within {_TIMEOUT_S:.0f} s.") from error
    # Exit code 1 is a report that says what to mind, and it says so in its text.
    if not (report / "index.html").exists():
        raise LocalClusterError(f"No report of {kept}: {made.stderr[-2000:]}")
    return made.stdout

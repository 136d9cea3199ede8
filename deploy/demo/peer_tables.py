"""The peer's run as recorded tables, so that the convergence report shows it beside ours.

Pulsar's own resource groups record nothing, and what they hold back is not seen from outside. The demo
knows both sides: the brokers' counters say what was admitted, and the story what was offered. Of each
second that part counts as held which tells the report how much more was offered (spark_jobs/timeline.py);
that is all of it where nearly twice as much was. Local limits, reports and certificates are the peer's
own affair and stay unknown.

Seconds are whole ones of the wall clock. A broker stands in those of the acts in which it is offered
something; one that was killed returns as another incarnation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from coordinator.adapters.recorder.files import RecordedFiles, date_of
from coordinator.adapters.recorder.tables import SCHEMAS, RecordedTable
from deploy.demo.curves import Curve, curves
from deploy.demo.recording import Act, DemoRecording
from deploy.demo.system import GROUP

CLUSTER = "Pulsar's resource groups"
_WHOLE_US = 1_000_000
_DIMENSION = "publishRateInMsgs"
_KEPT = 2**62

_Row = dict[str, Any]


def write(recording: DemoRecording, place: Path, wall_s: float) -> None:
    """Write a run's tables below a directory.

    Args:
        recording: of the peer.
        place: where to.
        wall_s: seconds since the epoch at second 0 of the recording's clock.
    """
    rows = _rows(recording, wall_s)
    for (table, broker), of_broker in rows.items():
        files = RecordedFiles(
            str(place), broker=broker, run=f"counters-{broker}",
            retention_s=_KEPT, bytes_max=_KEPT,
        )  # fmt: skip
        content = pa.Table.from_pylist(of_broker, SCHEMAS[table])
        files.write(table, date_of(round(wall_s * _WHOLE_US)), content)


def _rows(
    recording: DemoRecording, wall_s: float
) -> Mapping[tuple[RecordedTable, str], list[_Row]]:
    by_broker = curves(recording.samples, recording.misses)
    rows: dict[tuple[RecordedTable, str], list[_Row]] = defaultdict(list)
    present: set[str] = set()
    lives: dict[str, int] = defaultdict(int)
    first = math.ceil(recording.acts[0].happened_s + wall_s)
    last = math.floor(recording.acts[-1].ended_s + wall_s)
    for second in range(first, last):
        start_s = second - wall_s
        act = _act_at(recording, start_s)
        offered = {broker: demand for broker, demand in act.demands.items() if demand > 0}
        for broker in sorted(offered.keys() - present):
            lives[broker] += 1
        gone = present - offered.keys()
        for broker in sorted(gone if not _kills(recording, act) else ()):
            head = _head(broker, lives[broker], second)
            rows[RecordedTable.ADMITTED, broker].append(
                head | _second(second, 0, held_us=0, clients=0)
            )
        for broker in sorted(gone if _kills(recording, act) else ()):
            seen = _head(min(offered), lives[min(offered)], math.floor(act.known_s + wall_s))
            change = {"member": broker, "member_incarnation": lives[broker], "change": "gone"}
            rows[RecordedTable.MEMBERSHIP, min(offered)].append(seen | change)
        for broker, demand in sorted(offered.items()):
            head = _head(broker, lives[broker], second)
            admitted = _admitted(by_broker.get(broker), start_s)
            more = demand / admitted - 1 if admitted else 1.0
            held_us = round(_WHOLE_US * min(max(more, 0.0), 1.0))
            rows[RecordedTable.ADMITTED, broker].append(
                head | _second(second, admitted, held_us=held_us, clients=1)
            )
            rows[RecordedTable.LIFECYCLE, broker].append(head | _alive(second))
        present = set(offered)
    rows[RecordedTable.CONFIGURATION, "story"] = list(_definitions(recording, wall_s))
    return rows


def _act_at(recording: DemoRecording, moment_s: float) -> Act:
    return [act for act in recording.acts if act.happened_s <= moment_s][-1]


def _kills(recording: DemoRecording, act: Act) -> bool:
    killed_s = recording.killed_s
    return killed_s is not None and act.happened_s <= killed_s < act.ended_s


def _admitted(curve: Curve | None, start_s: float) -> int:
    return 0 if curve is None else round(curve.rate(start_s))


def _head(broker: str, life: int, second: int) -> _Row:
    return {
        "cluster": CLUSTER,
        "broker": broker,
        "incarnation": life,
        "run": f"{broker}-{life}",
        "ts": datetime.fromtimestamp(second, UTC),
        "monotonic_ns": second * 10**9,
    }


def _second(second: int, admitted: int, *, held_us: int, clients: int) -> _Row:
    return {
        "second": datetime.fromtimestamp(second, UTC),
        "observed_us": _WHOLE_US,
        "resource_group": GROUP,
        "monitoring_class": "Publish",
        "dimension": _DIMENSION,
        "admitted": admitted,
        "held_us": held_us,
        "participants": clients,
        "topics": clients,
    }


def _alive(second: int) -> _Row:
    return {
        "cause": "alive",
        "second": datetime.fromtimestamp(second, UTC),
        "observed_us": _WHOLE_US,
        "state": "ACTIVE",
        "degradations": [],
        "rows_dropped": 0,
    }


def _definitions(recording: DemoRecording, wall_s: float) -> Iterator[_Row]:
    for version, change in enumerate(recording.limits, 1):
        yield _head("story", 1, math.floor(change.at_s + wall_s)) | {
            "resource_group": GROUP,
            "configuration_version": version,
            "publish_messages": change.limit,
            "law": "pulsar",
            "overshoot_policy": "eager",
            "partition_policy": "hold",
            "weights": "equal",
        }

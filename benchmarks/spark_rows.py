"""Recorded rows in any number, by the simulator's distributions: what the report's benchmark reads.

Groups have demand by Zipf's law over their brokers and Poisson noise in every second, as the scenarios of
the simulator have; every ten minutes another broker is the busiest one. Local limits are the exact
max-min shares, by the project's own law, of what was wanted in the second before: so shares are a little
off all the time, and much in the second of a change. One group is hot: it stands on all brokers, the
others on a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coordinator.adapters.recorder.files import RecordedFiles, date_of
from coordinator.adapters.recorder.tables import SCHEMAS, RecordedTable
from coordinator.core.allocation.fill import max_min_many
from coordinator.simulation.traffic import zipf

_START_S = 1_800_000_000
_BROKERS = 40
_OF_OTHERS = 4
_OTHERS = 40
_LIMIT = 20_000
_ROTATES_S = 600
_EXPONENT = 1.0
_CHUNK_S = 5_000
_SATURATED_US = 950_000
_KEPT = 2**62

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Written:
    """The generated data: rows of all tables, and seconds that they cover."""

    rows: int
    seconds: int


def write(place: Path, rows: int) -> Written:
    """Write about `rows` rows of the table ``admitted``, and the other tables that a report needs."""
    groups = _groups()
    each_second = 2 * sum(len(brokers) for brokers in groups.values())
    seconds = max(1, rows // each_second)
    files = {broker: _files(place, broker) for broker in range(_BROKERS)}
    random = np.random.default_rng(seed=82)
    written = 0
    for start in range(0, seconds, _CHUNK_S):
        length = min(_CHUNK_S, seconds - start)
        for broker, columns in _chunk(groups, random, start, length):
            written += _write(files[broker], RecordedTable.ADMITTED, broker, columns)
        for broker, of_broker in files.items():
            written += _write(of_broker, RecordedTable.LIFECYCLE, broker, _alive(start, length))
    written += _write(files[0], RecordedTable.CONFIGURATION, 0, _definitions(groups))
    return Written(written, seconds)


def _groups() -> dict[str, list[int]]:
    """The brokers of each group: the hot one's are all, the others' a few."""
    others = {
        f"group-{number:02}": [(number + 7 * place) % _BROKERS for place in range(_OF_OTHERS)]
        for number in range(_OTHERS)
    }
    return {"hot": list(range(_BROKERS)), **others}


def _chunk(
    groups: dict[str, list[int]], random: np.random.Generator, start: int, length: int
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """The columns of every broker's rows in some seconds."""
    by_broker: dict[int, list[dict[str, pa.Array]]] = {broker: [] for broker in range(_BROKERS)}
    moments = _START_S + start + np.arange(length)
    for name, brokers in groups.items():
        # Of the second before, too: it has decided on the limits.
        wanted = _wanted(random, np.insert(moments, 0, moments[0] - 1), len(brokers))
        known, wanted = wanted[:-1], wanted[1:]
        cluster_limits = np.full(length, _LIMIT, dtype=np.int64)
        limits = max_min_many(cluster_limits, known, np.ones_like(known)).targets
        admitted = np.minimum(wanted, limits)
        held = np.where(wanted > limits, _SATURATED_US, 0)
        for column, broker in enumerate(brokers):
            for dimension, size in (("publishRateInMsgs", 1), ("publishRateInBytes", 1_000)):
                passed = admitted[:, column] * size
                by_broker[broker].append(
                    _columns(name, dimension, moments, passed, held[:, column], limits[:, column])
                )
    for broker, parts in by_broker.items():
        tables = [pa.table(part) for part in parts]
        merged = pa.concat_tables(tables).combine_chunks()
        yield broker, {column: merged[column] for column in merged.column_names}


def _wanted(random: np.random.Generator, moments: Numbers, brokers: int) -> Numbers:
    """Poisson arrivals about Zipf's rates, half as much again as the limit, going round."""
    rates = np.array(zipf(_LIMIT * 3 // 2, brokers, _EXPONENT))
    turns = (moments // _ROTATES_S)[:, None] + np.arange(brokers)[None, :]
    arrivals: Numbers = random.poisson(rates[turns % brokers]).astype(np.int64)
    return arrivals


def _columns(
    group: str, dimension: str, moments: Numbers, passed: Numbers, held: Numbers, limits: Numbers
) -> dict[str, pa.Array]:
    length = len(moments)
    messages = dimension == "publishRateInMsgs"
    return {
        "second": pa.array(moments * 1_000_000, pa.timestamp("us", tz="UTC")),
        "observed_us": pa.array(np.full(length, 1_000_000)),
        "resource_group": pa.array([group] * length),
        "monitoring_class": pa.array(["Publish"] * length),
        "dimension": pa.array([dimension] * length),
        "admitted": pa.array(passed),
        "held_us": pa.array(held if messages else np.zeros(length, dtype=np.int64)),
        "local_limit": pa.array(limits) if messages else pa.nulls(length, pa.int64()),
        "participants": pa.array(np.ones(length, dtype=np.int64)),
        "topics": pa.array(np.ones(length, dtype=np.int64)),
    }


def _alive(start: int, length: int) -> dict[str, pa.Array]:
    seconds = (_START_S + start + np.arange(length)) * 1_000_000
    return {
        "cause": pa.array(["alive"] * length),
        "second": pa.array(seconds, pa.timestamp("us", tz="UTC")),
        "observed_us": pa.array(np.full(length, 1_000_000)),
        "state": pa.array(["ACTIVE"] * length),
        "degradations": pa.array([[]] * length, pa.list_(pa.string())),
        "rows_dropped": pa.array(np.zeros(length, dtype=np.int64)),
    }


def _definitions(groups: dict[str, list[int]]) -> dict[str, pa.Array]:
    number = len(groups)
    return {
        "resource_group": pa.array(list(groups)),
        "configuration_version": pa.array(range(1, number + 1), pa.int64()),
        "publish_messages": pa.array([_LIMIT] * number, pa.int64()),
        **{
            column: pa.nulls(number, pa.int64())
            for column in ("publish_bytes", "dispatch_messages", "dispatch_bytes")
        },
        "law": pa.array(["max-min"] * number),
        "overshoot_policy": pa.array(["balanced"] * number),
        "partition_policy": pa.array(["hold"] * number),
        "weights": pa.array(["equal"] * number),
    }


def _write(
    files: RecordedFiles, table: RecordedTable, broker: int, columns: dict[str, pa.Array]
) -> int:
    """One file, with what all tables have in common in front; its rows are of one day."""
    length = len(next(iter(columns.values())))
    seconds = columns.get("second")
    moments = (
        pa.array([_START_S * 1_000_000] * length, pa.timestamp("us", tz="UTC"))
        if seconds is None
        else seconds
    )
    common = {
        "cluster": pa.array(["bench"] * length),
        "broker": pa.array([_name(broker)] * length),
        "incarnation": pa.array([1] * length, pa.int64()),
        "run": pa.array([f"run-{broker}"] * length),
        "ts": moments,
        "monotonic_ns": pa.array(range(length), pa.int64()),
    }
    first_us = int(moments[0].cast(pa.int64()).as_py())
    files.write(table, date_of(first_us), pa.table(common | columns, schema=SCHEMAS[table]))
    return length


def _files(place: Path, broker: int) -> RecordedFiles:
    return RecordedFiles(
        str(place), broker=_name(broker), run=f"run-{broker}",
        retention_s=_KEPT, bytes_max=_KEPT,
    )  # fmt: skip


def _name(broker: int) -> str:
    return f"broker-{broker:02}"

"""The peer's counters become the tables that the report reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.demo import peer_tables
from tests.demo.scenes import a_peers_run
from tests.spark_jobs import plain

WALL_S = 1_800_000_000.0
START = 1_800_000_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a peer's run."""
    made = tmp_path_factory.mktemp("peer")
    peer_tables.write(a_peers_run(), made, WALL_S)
    return made


def test_a_second_is_what_the_counters_say(place: Path) -> None:
    """The held traffic is the offered less the admitted; a killed broker has no rows any more."""
    rows = sorted(plain.read(place, "admitted"), key=lambda row: (row["broker"], row["second"]))

    def told(row: dict[str, Any]) -> tuple[object, ...]:
        return row["broker"], row["second"].timestamp() - START, row["admitted"], row["held_us"]

    assert told(rows[0]) == ("broker-1", 0, 2900, round(1_100_000_000 / 2900))
    assert told(rows[39]) == ("broker-1", 39, 5900, round(2_100_000_000 / 5900))
    assert told(rows[40]) == ("broker-2", 0, 100, 1_000_000)
    assert told(rows[-1]) == ("broker-2", 59, 3000, 333_333)
    assert len(rows) == 100
    assert {row["local_limit"] for row in rows} == {None}

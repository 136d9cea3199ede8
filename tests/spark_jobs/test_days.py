"""Jobs that write days share code; here, how a forecast is shown."""

from __future__ import annotations

from datetime import datetime

import pytest

from spark_jobs import backlog_trends, usage_rollup
from spark_jobs.days import DaysOutcome, Job

FORETOLD = {"used": 0.7512, "per_day": 0.0123, "reached": datetime(2026, 12, 1, 9, 30)}  # noqa: DTZ001 - as Spark gives it
NOTHING = dict.fromkeys(FORETOLD)
GROUPS = [
    {"resource_group": "orders", "dimension": "publishRateInMsgs", "hours": 240, **FORETOLD},
    {"resource_group": "returns", "dimension": "dispatchRateInBytes", "hours": 1, **NOTHING},
]
TOPICS = [
    {"quota_type": "size", "topic": "persistent://t/n/in", "exceeded": 3, **FORETOLD},
    {"quota_type": "time", "topic": "persistent://t/n/in", "exceeded": 0, **NOTHING},
]


@pytest.mark.parametrize(
    ("job", "rows", "shown"),
    [
        pytest.param(
            usage_rollup.JOB,
            GROUPS,
            """\
group            dimension             hours    used   per day  80 % is reached
orders           publishRateInMsgs       240   75.1%    +1.23%  2026-12-01 09:30
returns          dispatchRateInBytes       1       -         -  -
warning: late""",
            id="rollup",
        ),
        pytest.param(
            backlog_trends.JOB,
            TOPICS,
            """\
quota     used   per day  exceeded  80 % is reached    topic
size     75.1%    +1.23%         3  2026-12-01 09:30   persistent://t/n/in
time         -         -         0  -                  persistent://t/n/in
warning: late""",
            id="backlog-trends",
        ),
    ],
)
def test_a_forecast_is_shown_in_columns(
    job: Job, rows: list[dict[str, object]], shown: str
) -> None:
    """Titles stand above their columns; an unknown value is a dash; warnings come last."""
    assert job.text(DaysOutcome(tuple(rows), 1, ("late",))) == shown

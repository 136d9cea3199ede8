"""Advice as people read it: everything that is known, and no name that a browser would run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from spark_jobs.advice import RecordedDemand, advise
from spark_jobs.advice_shown import AdviceOutcome, as_json, page, text
from spark_jobs.pages import refuse_without
from spark_jobs.refusals import RefusedInput

SECONDS = 20_000
HOSTILE = "<script>alert(1)</script>"


def row(name: str, **others: Any) -> dict[str, Any]:
    """An advice as the job gives it, for a demand that grows a little all the time."""
    values = [1_000.0 + second / 100 for second in range(SECONDS)]
    told = asdict(advise(RecordedDemand(range(SECONDS), values, values), in_force=2_000))
    del told["throttled"]
    return {
        "resource_group": name, "dimension": "publishRateInMsgs", "in_force": 2_000,
        **json.loads(json.dumps(told, default=str)),
        "played": [{"part": 1.0, "limit": 1_200, "throttled": 3, "seconds": 300}],
        "brokers": [{"broker": "broker-1", "seconds": 20, "lacking": 31.5}],
        "namespaces": [{"name": HOSTILE, "passed": 12_345}],
        "settings": {},
        **others,
    }  # fmt: skip


def test_the_text_has_the_evidence_below_each_limit() -> None:
    """A limit, its bounds, and how it was found."""
    growth = {"per_day": 12.3, "ahead": 1_555}
    shown = text(AdviceOutcome((row("orders", growth=growth),), 0.001, ("late",))).splitlines()

    assert shown[1].split() == [
        "orders", "publishRateInMsgs", "2,000", "1,200", "1,200", "to", "1,200", "1,200",
    ]  # fmt: skip
    assert shown[2].startswith("    throttled of 20,000 s (20 allowed), by limit: 600: 20,000, ")
    assert ", 1,200: 0, " in shown[2]
    assert shown[3:6] == [
        "    played again, of the busiest 300 s: 1,200: 3",
        "    would feel it: broker-1 (20 s)",
        f"    most traffic in those minutes: {HOSTILE} (12,345)",
    ]
    assert shown[6] == "    grows by 12 a day: 1,555 in 30 days"
    assert shown[-1] == "warning: late"


def test_what_is_not_known_is_a_dash() -> None:
    """Neither a limit nor a next step."""
    found = row("orders", limit=None, high=None, step=None, in_force=None)

    assert text(AdviceOutcome((found,), 0.001, ())).splitlines()[1].split()[2:] == [
        "-", "-", "1,200", "to", "any", "-",
    ]  # fmt: skip


def test_names_on_the_page_are_text() -> None:
    """Tenants choose the names of namespaces and groups."""
    shown = page(HOSTILE, AdviceOutcome((row(HOSTILE),), 0.001, (HOSTILE,)))

    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") >= 4
    assert "<td>12,345</td>" in shown


def test_a_page_is_refused_before_hours_of_work_where_it_cannot_be_made() -> None:
    """The error names what is missing and how to get it."""
    refuse_without("jinja2")
    with pytest.raises(
        RefusedInput, match=r"lacks no_such_library .* pip install '\.\[spark\]' in"
    ):
        refuse_without("jinja2", "no_such_library")


def test_a_page_of_many_groups_ends_somewhere() -> None:
    """The rest is in the JSON file."""
    outcome = AdviceOutcome(tuple(row(f"g{number}") for number in range(3)) * 200, 0.001, ())

    assert page("test", outcome).count("<h2>") == 500
    assert "100 more groups and dimensions are in advice.json" in page("test", outcome)
    assert len(json.loads(as_json(outcome))["advice"]) == 600

"""The documentation shows what its data say, and its data are of what there is today."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import sim
from benchmarks.pages import charts, runs, tables
from benchmarks.pages.look import LOOKS
from coordinator.core.allocation.laws import ALL_LAWS
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def run(*words: str) -> str:
    """Return the output of a command that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_table_is_the_one_that_its_data_make() -> None:
    """``make figures`` was run after the data or the tables changed."""
    run(sys.executable, "-m", "cogapp", "--check", "-I", ".", *map(str, PAGES))


def test_every_chart_is_shown_for_light_and_dark_pages() -> None:
    """Each in a version for both, with words for those who cannot see it; none is drawn for nothing."""
    shown = [
        (words, target)
        for page in PAGES
        for words, target in re.findall(r"!\[(.*?)\]\((.*?)\)", page.read_text(encoding="utf-8"))
    ]

    assert all(words for words, _ in shown)
    assert sorted(target for _, target in shown) == sorted(
        f"figures/{name}-{look.name}.svg#only-{look.name}"
        for name in charts.CHARTS
        for look in LOOKS
    )


@pytest.mark.verify
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Links and anchors are whole, every chart can be drawn, and a page needs no network."""
    charts.draw_all()
    run(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path))

    loaded = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")
    for page in tmp_path.rglob("*.html"):
        assert not loaded.search(page.read_text(encoding="utf-8")), page.name
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_every_subject_has_its_data() -> None:
    """No file is missing, none is left over."""
    assert {file.stem for file in runs.DATA.glob("*.json")} == set(runs.SUBJECTS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenarios_data_are_of_all_laws_and_policies(name: str) -> None:
    """Ours under every policy, all others as they act, told with today's words."""
    found = runs.read(name)

    ours = [(sim.OURS, policy) for policy in POLICIES]
    others = [(law, "eager") for law in ALL_LAWS if law != sim.OURS and name in runs.COMPARED]
    assert [(row.law, row.policy) for row in runs.summaries(name)] == ours + others
    scenario = SCENARIOS[name]
    assert (found["title"], found["description"]) == (scenario.title, scenario.description)


@pytest.mark.verify
@pytest.mark.parametrize("subject", ["step", "crash"])
def test_a_run_of_today_tells_the_story_of_the_data(subject: str) -> None:
    """Replayed from its seed, no broker's traffic is apart by more than 2 % of C on average."""
    now, then = runs.SUBJECTS[subject](1)["runs"], runs.read(subject)["runs"]

    assert len(now) == len(then)
    for new, old in zip(now, then, strict=True):
        assert new.keys() == old.keys()
        assert (new["law"], new["policy"], new["limit"]) == (
            old["law"],
            old["policy"],
            old["limit"],
        )
        for broker, admitted in old["admitted"].items():
            apart = [abs(a - b) for a, b in zip(admitted, new["admitted"][broker], strict=True)]
            assert sum(apart) <= 0.02 * sum(old["limit"]), f"{new['law']} {new['policy']} {broker}"


def test_a_missed_target_is_shown_with_its_scenarios(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two scenarios one settles too late: its figure is in bold, with its name."""
    late = replace(runs.summaries("S1")[0], settle_rounds={"median": 3, "max": 9})
    found = {"S1": [late], "S2": [replace(late, settle_rounds={"median": 1, "max": 2})]}
    monkeypatch.setattr(tables, "summaries", found.__getitem__)

    assert tables._worst("settle-worst", 2, ["S1", "S2"], late.policy) == "**9** (missed in S1)"
    assert tables._worst("settle-worst", 9, ["S1", "S2"], late.policy) == "9"
    assert tables._worst("settle-worst", 2, [], late.policy) == "-"


def test_never_is_worse_than_any_number() -> None:
    """Of settling times: three seeds, the median is two rounds, one never settled."""
    assert tables._spread([2, None, 1]) == ["3", "2", "never"]


def test_rows_and_series_stand_on_a_line_each() -> None:
    """A reader can follow the difference of two states of the data."""
    rows = {"rows": [{"law": "a"}, {"law": "b"}], "series": list(range(1_000))}

    text = runs.as_text(rows)

    assert json.loads(text) == rows
    assert len(text.splitlines()) == 7

"""The documentation's samples work: commands, configuration, groups and make's targets."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli import manifest
from coordinator.cli.__main__ import app
from coordinator.config import from_mapping
from tests.deploy.test_shipped import known_metrics

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:|figures/)([^)#]*)#?([^)]*)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_NAMED = re.compile(r"`(docs/[\w-]+\.md)`")


def blocks(language: str, *pages: Path) -> list[str]:
    """The samples of a language, on these pages."""
    return [
        text
        for page in pages
        for found, text in _BLOCK.findall(page.read_text(encoding="utf-8"))
        if found == language
    ]


def lines(start: str) -> list[str]:
    """Lines of samples that begin so, without what stands behind a # or >, on all pages."""
    text = "\n".join(blocks("", ROOT / "README.md", *PAGES))
    found = [line for line in text.splitlines() if line.startswith(start)]
    return sorted({re.split(r"\s+[#>]", line)[0] for line in found})


@pytest.mark.parametrize("line", lines("pulsar-quota "))
def test_a_command_that_is_shown_exists_with_its_options(line: str) -> None:
    """Help is asked for behind all that is shown, so nothing is carried out."""
    result = CliRunner().invoke(app, [*shlex.split(line)[1:], "--help"])

    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("text", blocks("toml", *PAGES))
def test_a_configuration_that_is_shown_is_accepted(text: str) -> None:
    """In the file that the quick start shows, whose other lines stay."""
    (started,) = blocks("toml", ROOT / "docs" / "quick-start.md")

    from_mapping(tomllib.loads(started) | tomllib.loads(text))


@pytest.mark.parametrize("text", blocks("yaml", *PAGES))
def test_groups_that_are_shown_are_accepted(text: str, tmp_path: Path) -> None:
    """By ``groups apply``."""
    (tmp_path / "groups.yaml").write_text(text)

    assert manifest.read(tmp_path / "groups.yaml")


def test_every_target_of_make_that_is_named_exists() -> None:
    """In prose or in a sample."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *PAGES))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and GitHub make them."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\s-]", "", heading) for heading in _HEADING.findall(text))
    return {re.sub(r"[-\s]+", "-", each.strip().lower()) for each in plain}


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *PAGES], ids=lambda page: page.name)
def test_every_link_leads_to_a_page_and_a_heading_that_exist(page: Path) -> None:
    """On the site, in the README and beside it."""
    text = page.read_text(encoding="utf-8")
    for path, anchor in _LINK.findall(text):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in headings(target), f"{path}#{anchor}"
    for path in _NAMED.findall(text):
        assert (ROOT / path).exists(), path


async def test_every_metric_of_a_sidecar_is_in_the_reference() -> None:
    """With a gate or without, whatever it has to tell."""
    page = (ROOT / "docs" / "reference-metrics.md").read_text(encoding="utf-8")

    assert await known_metrics() <= set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def test_every_metric_is_explained_without_another() -> None:
    """A tool shows the help of one metric alone, so it points to no other text."""
    page = (ROOT / "docs" / "reference-metrics.md").read_text(encoding="utf-8")
    (rows,) = tables(page)
    pointing = re.compile(
        r"\b(?:these|such|those of|(?<!all )the same|owed one|its other)\b",
        re.IGNORECASE,
    )

    assert [row for row in rows if pointing.search(row[3])] == []


def test_every_row_of_what_can_break_names_tests_that_show_it() -> None:
    """The same rows in both tables, and every test that is named exists."""
    promised, shown = tables((ROOT / "docs" / "failure-modes.md").read_text(encoding="utf-8"))

    assert [row[0] for row in shown] == [row[0].partition(" (")[0] for row in promised]
    for row in shown:
        named = re.findall(r"`(.+?)::(.+?)`", row[1])
        assert named
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), test


def tables(page: str) -> list[list[list[str]]]:
    """The tables of a page: their rows without the head, each a list of cells."""
    found = re.findall(r"(?:^\|.*\|$\n)+", page, re.MULTILINE)
    return [
        [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]
        for table in found
    ]

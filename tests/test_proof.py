"""`make test` shows each failure as it comes, runs every part, and ends with what passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.__main__ import Part, Selection, run

THREE = """
import pytest

def test_that_passes(): pass

def test_that_fails(): assert 1 == 2

@pytest.mark.skip
def test_that_is_skipped(): pass
"""


def selection(folder: Path, name: str, source: str) -> Selection:
    """Tests of a file of their own."""
    file = folder / f"test_{name}.py"
    file.write_text(source)
    return Selection(name, "not verify", (str(file), "-W", "ignore"))


def test_every_part_runs_and_the_last_line_adds_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of the first part is named at once, in a line of its process, and ends nothing."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # to load them takes seconds
    parts = (
        Part("two files", 2, (selection(tmp_path, "a", THREE), selection(tmp_path, "b", THREE))),
        Part("one file", 1, (selection(tmp_path, "c", "def test_that_passes(): pass"),)),
    )

    code = run(parts, tmp_path)

    shown = capsys.readouterr().out.splitlines()
    assert code == 1
    assert "Part 1 of 2: two files. About 3 min left in all." in shown
    assert "Part 2 of 2: one file. About 1 min left in all." in shown
    for name in ("a", "b"):
        (at_once,) = [line for line in shown if line.startswith(f"{name}:   FAILED ")]
        assert at_once.endswith(f"test_{name}.py::test_that_fails")
    assert "make verify" in shown[-2]
    assert shown[-1] == "3 passed, 2 failed, 2 skipped"

"""Processes beside a cluster: watched, found again, and ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.errors import LocalClusterError
from deploy.local.processes import stop_all
from deploy.local.programs import Programs
from deploy.local.waiting import wait_until


def test_a_program_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    """A reader of the error need not look for the log."""
    programs = Programs(tmp_path)
    programs.start("short", ["sh", "-c", "echo last words"])
    with pytest.raises(LocalClusterError, match="last words"):
        wait_until(lambda: False, "it does not end", programs.check)


def test_programs_are_found_and_stopped_by_whoever_comes_later(tmp_path: Path) -> None:
    """As after KEEP=1."""
    Programs(tmp_path).start("long", ["sleep", "60"])
    later = Programs.left_in(tmp_path)
    assert later.any
    later.stop()
    assert not Programs.left_in(tmp_path).any


def test_a_program_whose_end_is_another_s_is_no_longer_missed(tmp_path: Path) -> None:
    """The story kills on purpose."""
    programs = Programs(tmp_path)
    programs.start("victim", ["sleep", "60"])
    victim = programs.release("victim")
    stop_all([victim], grace_s=10)

    programs.check()
    assert not Programs.left_in(tmp_path).any

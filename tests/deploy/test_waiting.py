"""Waiting asks again after a refusal, and tells the last one when time is over."""

from __future__ import annotations

import pytest

from deploy.local.errors import (
    HopelessError,
    LocalClusterError,
    MissingProgramError,
    WrongUseError,
    exit_code,
)
from deploy.local.waiting import insist, wait_until


def test_what_is_refused_is_done_again_until_it_is_not() -> None:
    """As by a broker that has just come back."""
    refusals = [LocalClusterError("not yet"), LocalClusterError("nor now")]

    def do() -> None:
        if refusals:
            raise refusals.pop()

    insist(do, "refused")
    assert not refusals


def test_a_wait_that_is_over_says_what_was_seen_last() -> None:
    """The text has the trouble, the time and the refusal; without a refusal it ends there."""

    def refuse() -> bool:
        raise LocalClusterError("POST /x answered 503")

    with pytest.raises(LocalClusterError, match=r"^Not done after 0 s: POST /x answered 503$"):
        insist(refuse, "Not done", within_s=0)
    with pytest.raises(LocalClusterError, match=r"^Not so after 0 s\.$"):
        wait_until(lambda: False, "Not so", within_s=0)


@pytest.mark.parametrize("kind", [MissingProgramError, WrongUseError])
def test_what_no_waiting_mends_ends_the_wait(kind: type[HopelessError]) -> None:
    """The error is as it was, at the first time, and the command line tells it from a failure."""
    tries = []

    def fail() -> int:
        tries.append(kind)
        raise kind("install it")

    with pytest.raises(kind, match=r"^install it$"):
        insist(fail, "Not done")
    assert tries == [kind]
    assert exit_code(fail) == 2

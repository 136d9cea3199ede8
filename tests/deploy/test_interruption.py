"""Signals that end a command, and what they do not interrupt."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from deploy.local import processes
from deploy.local.errors import exit_code
from deploy.local.interruption import interrupted_once, uninterrupted
from deploy.local.waiting import wait_until

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_ends_a_command_and_those_after_it_do_not_interrupt_its_end(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has failed, and afterwards signals do what they did before."""
    before = [signal.getsignal(each) for each in SIGNALS]
    stopped: list[signal.Signals] = []

    def work() -> int:
        try:
            signal.raise_signal(number)
        finally:
            for each in SIGNALS:
                signal.raise_signal(each)
                stopped.append(each)
        return 0

    assert exit_code(work) == 1
    assert stopped == list(SIGNALS)
    assert [signal.getsignal(each) for each in SIGNALS] == before
    assert capsys.readouterr().err.startswith("error: interrupted")


def test_a_signal_that_was_held_back_interrupts_once_the_work_is_done() -> None:
    """One that came twice does so once, and work within work is done, too."""
    done: list[str] = []

    @uninterrupted()
    def work(name: str, *within: str) -> None:
        signal.raise_signal(signal.SIGINT)
        for each in within:
            work(each)
        done.append(name)

    with pytest.raises(KeyboardInterrupt), interrupted_once():
        work("outer", "inner")

    assert done == ["inner", "outer"]


SLOW = """
import os, pathlib, signal, sys, time

def end(*_):
    os.kill(int(sys.argv[1]), signal.SIGINT)
    sys.exit()

signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[2]).touch()
time.sleep(600)
"""


def test_what_is_being_stopped_is_stopped_whatever_signals_come(tmp_path: Path) -> None:
    """A process at whose end Ctrl-C is pressed, and one that takes no notice of SIGTERM."""
    begun = tmp_path / "begun"
    log = tmp_path / "log"
    command = [sys.executable, "-c", SLOW, str(os.getpid()), str(begun)]
    started = [
        processes.start(command, log, tmp_path),
        processes.start(["sh", "-c", "trap '' TERM; sleep 600"], log, tmp_path),
    ]
    wait_until(begun.exists, "It has not begun")

    with pytest.raises(KeyboardInterrupt), interrupted_once():
        processes.stop_all(started, grace_s=1)

    assert not any(processes.is_alive(process) for process in started)

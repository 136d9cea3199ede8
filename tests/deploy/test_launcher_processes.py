"""Processes: known by pid and start, ended only when they are ours."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local import processes
from deploy.local.errors import LocalClusterError
from deploy.local.processes import ProcessIdentity

Start = Callable[..., ProcessIdentity]
#: On a machine that may stand still.
PATIENCE_S = 60.0
SHARED_BYTES = 100_000_000


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start commands that are surely ended after the test."""
    started: list[ProcessIdentity] = []

    def run(*command: str) -> ProcessIdentity:
        process = processes.start(command, tmp_path / "log", tmp_path)
        started.append(process)
        return process

    yield run
    processes.stop_all(started, grace_s=0)


def test_a_started_process_lives_until_it_is_stopped(start: Start) -> None:
    """SIGTERM ends it, and the launcher sees its end without another waiter."""
    process = start("sleep", "60")
    assert processes.is_alive(process)
    processes.stop_all([process], grace_s=5)
    assert not processes.is_alive(process)


def test_a_started_process_leads_its_own_session(start: Start) -> None:
    """Ctrl-C at our terminal does not reach it."""
    process = start("sleep", "60")
    assert os.getsid(process.pid) == process.pid


def test_a_recycled_pid_is_never_signalled(start: Start) -> None:
    """The same number with another start is another process, and is left alone."""
    process = start("sleep", "60")
    older = ProcessIdentity(process.pid, "boot:1")
    assert not processes.is_alive(older)
    assert not processes.send_signal(older, signal.SIGKILL)
    processes.stop_all([older], grace_s=1)
    assert processes.is_alive(process)


def test_a_process_that_ignores_sigterm_is_killed(start: Start, tmp_path: Path) -> None:
    """The grace is bounded."""
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('deaf', flush=True); time.sleep(60)"
    )
    process = start(sys.executable, "-c", code)
    while "deaf" not in processes.tail(tmp_path / "log"):
        time.sleep(0.01)
    processes.stop_all([process], grace_s=0.1)
    assert not processes.is_alive(process)


def test_a_paused_process_is_stopped_too(start: Start) -> None:
    """SIGSTOP does not keep a server from being ended in order."""
    process = start("sleep", "60")
    processes.send_signal(process, signal.SIGSTOP)
    processes.stop_all([process], grace_s=5)
    assert not processes.is_alive(process)


def family_of(process: ProcessIdentity, size: int) -> tuple[ProcessIdentity, ...]:
    """A process and its children, once there are `size` of them."""
    deadline = time.monotonic() + PATIENCE_S
    while len(found := processes.family(process.pid)) != size:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found


def test_a_family_is_a_process_and_all_that_it_and_its_children_have_started(start: Start) -> None:
    """Parents first, until they end; of who is gone there is none."""
    process = start("sh", "-c", 'sh -c "sleep 60 & wait" & wait')
    family = family_of(process, 3)
    assert family[0] == process

    processes.stop_all(family, grace_s=5)
    assert processes.family(process.pid) == ()


def test_what_a_stopped_process_leaves_behind_is_ended_with_it(start: Start) -> None:
    """Children without a signal of their own end too, and stopped ones."""
    process = start("sh", "-c", "sleep 60 & wait")
    _, child = family_of(process, 2)
    processes.send_signal(child, signal.SIGSTOP)

    processes.stop_all([process], grace_s=0.1)
    assert not processes.is_alive(child)


def test_what_a_family_shares_is_counted_once(start: Start) -> None:
    """A hundred megabytes of a process that has been forked."""
    code = f"import os, time; taken = b'x' * {SHARED_BYTES}; os.fork(); time.sleep(60)"
    process = start(sys.executable, "-c", code)
    family = family_of(process, 2)

    together = sum(processes.memory_bytes(each.pid) for each in family)
    assert SHARED_BYTES < together < 1.5 * SHARED_BYTES
    assert together > max(processes.memory_bytes(each.pid) for each in family)
    assert sum(processes.resident_bytes(each.pid) for each in family) > 2 * SHARED_BYTES


def test_who_listens_is_the_child_where_its_parent_holds_the_socket_too(
    start: Start, tmp_path: Path
) -> None:
    """A process that inherits the socket serves it; no process listens at another port."""
    code = (
        "import os, socket, time; server = socket.create_server(('127.0.0.1', 0));"
        "print(server.getsockname()[1], flush=True); os.fork(); time.sleep(60)"
    )
    parent, child = family_of(start(sys.executable, "-c", code), 2)
    port = int(processes.tail(tmp_path / "log"))

    assert processes.listener([parent, child], port) == child
    assert processes.listener([parent], port) == parent
    assert processes.listener([parent, child], 1) is None


def test_a_limit_lasts_for_a_while(start: Start) -> None:
    """As before afterwards; that the process has ended meanwhile is no error."""
    process = start("sleep", "60")
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    with processes.limited(process.pid, resource.RLIMIT_NOFILE, 5):
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (5, before[1])
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == before

    with processes.limited(process.pid, resource.RLIMIT_NOFILE, 5):
        processes.stop_all([process], grace_s=5)


def test_how_a_process_has_ended_is_told(start: Start) -> None:
    """The launcher tells the exit code or the signal, and nothing while the process runs."""
    failing, sleeping = start("sh", "-c", "exit 3"), start("sleep", "60")
    assert processes.wait_until_gone(failing, PATIENCE_S)
    assert processes.exit_code(failing) == 3

    assert processes.exit_code(sleeping) is None
    processes.send_signal(sleeping, signal.SIGKILL)
    assert processes.wait_until_gone(sleeping, PATIENCE_S)
    assert processes.exit_code(sleeping) == -signal.SIGKILL


def test_signalling_what_is_gone_says_so(start: Start) -> None:
    """False, and no error."""
    process = start("true")
    assert processes.wait_until_gone(process, PATIENCE_S)
    assert not processes.send_signal(process, signal.SIGTERM)


def test_what_a_process_takes_is_told() -> None:
    """Of this one: at least what Python itself knows it has used."""
    before_s = sum(os.times()[:2])

    assert processes.processor_s(os.getpid()) >= before_s - 0.02
    assert processes.resident_bytes(os.getpid()) > 1_000_000
    assert processes.memory_bytes(os.getpid()) > 1_000_000
    assert 1_000_000 < processes.own_bytes(os.getpid()) < processes.resident_bytes(os.getpid())


def test_what_processes_take_together_counts_a_file_once(start: Start) -> None:
    """A process beside itself adds what is its own, and no files."""
    own = os.getpid()
    alone, beside = processes.together_bytes([own]), processes.together_bytes([own, own])

    assert alone > processes.own_bytes(own)
    assert 0.9 < (beside - alone) / processes.own_bytes(own) < 1.1
    other = start("sleep", "60").pid
    assert alone < processes.together_bytes([own, other]) + 1_000_000


def test_of_a_process_that_is_gone_nothing_is_told(start: Start) -> None:
    """An error that the system knows, not a number."""
    process = start("true")
    assert processes.wait_until_gone(process, PATIENCE_S)
    for take in (
        processes.processor_s,
        processes.resident_bytes,
        processes.memory_bytes,
        processes.own_bytes,
        lambda pid: processes.together_bytes([pid]),
    ):
        with pytest.raises(OSError, match=str(process.pid)):
            take(process.pid)
    assert processes.family(process.pid) == ()


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """The error says what could not be started."""
    with pytest.raises(LocalClusterError, match="/no/such/program"):
        processes.start(["/no/such/program"], tmp_path / "log", tmp_path)


def test_the_tail_of_a_log_is_short(tmp_path: Path) -> None:
    """The last lines, each cut, and a missing file is no error."""
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(100)) + "x" * 5000)
    lines = processes.tail(log, lines=3).splitlines()
    assert lines[0] == "line 98"
    assert len(lines) == 3
    assert len(lines[-1]) < 1000
    assert "no log" in processes.tail(tmp_path / "absent")

"""Starting, watching, signalling and outwaiting processes, knowing nothing of what they are.

A process is known by its pid together with the moment it started. The pid alone is not enough:
`down` may run days after `up`, and must not end a stranger that was given the same number. Each
process leads its own session, so that Ctrl-C at the terminal that started it does not reach it.
Whatever a process starts belongs to its family, and is ended with it.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import LocalClusterError
from deploy.local.interruption import uninterrupted

_POLL_S = 0.02
#: A zombie, or none at all. A zombie has ended; its parent has only not asked yet.
_ENDED = ("Z", "X")
_LONGEST_LINE = 300
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Of /proc/PID/stat, counted from the state on, and of /proc/PID/statm (proc(5)).
_STATE, _USER_TICKS, _SYSTEM_TICKS, _START = 0, 11, 12, 19
_RESIDENT_PAGES = 1
#: Of a line of /proc/net/tcp and tcp6: the local address, the state, and the inode of the socket.
_LOCAL, _TCP_STATE, _INODE = 1, 3, 9
_LISTENS = "0A"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

#: The processes that this Python started. Kept so that they are reaped when they end, and to say how.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, never to be confused with a later one of the same number.

    Attributes:
        pid: its number.
        started: an opaque text that differs for every process that ever had this number.
    """

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the live process with this number; a zombie does not count."""
    state, stamp = _state_and_start(pid)
    if state not in _ENDED:
        return ProcessIdentity(pid, stamp)
    child = _children.get(pid)
    if child is not None:
        child.wait()
    return None


def is_alive(process: ProcessIdentity) -> bool:
    """Say whether this very process still runs."""
    return identify(process.pid) == process


def family(pid: int) -> tuple[ProcessIdentity, ...]:
    """A live process, what it has started, and so on, parents first; empty if there is none."""
    process = identify(pid)
    if process is None:
        return ()
    return (process, *(each for child in started_by(pid) for each in family(child)))


def started_by(pid: int) -> list[int]:
    """The pids of what a process has started and not outlived; none if there is no such process."""
    found: list[int] = []
    with suppress(OSError):  # it has just ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # this thread has
                found += map(int, (thread / "children").read_text().split())
    return found


def start(command: Sequence[str], log_file: Path, directory: Path) -> ProcessIdentity:
    """Start a command in a session of its own, its output appended to the log file.

    Raises:
        LocalClusterError: it could not be started.
    """
    with log_file.open("ab") as log:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                start_new_session=True,
            )
        except OSError as error:
            raise LocalClusterError(f"Could not start {command[0]}: {error}") from error
    _children[child.pid] = child
    # However soon it ends, its number stays its own until we reap it.
    return ProcessIdentity(child.pid, _state_and_start(child.pid)[1])


def exit_code(process: ProcessIdentity) -> int | None:
    """With what a process has ended that this Python started; None while it runs.

    The number of the signal that ended it, if one did, below zero.
    """
    return _children[process.pid].poll()


def send_signal(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to this very process; return False when it is gone already."""
    if not is_alive(process):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(process: ProcessIdentity, timeout_s: float) -> bool:
    """Wait for the process itself, not for its port; return whether it ended in time."""
    deadline = time.monotonic() + timeout_s
    while is_alive(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


@uninterrupted()
def stop_all(processes: Sequence[ProcessIdentity], grace_s: float) -> None:
    """End all of them together: SIGTERM first, SIGKILL for what is left after `grace_s` seconds.

    What they have started is theirs to end, and has as long for it.

    Raises:
        LocalClusterError: one of them survived SIGKILL for ten seconds.
    """
    families = [each for process in processes if is_alive(process) for each in family(process.pid)]
    for process in processes:
        send_signal(process, signal.SIGTERM)
    for process in families:
        # A stopped process keeps SIGTERM pending until it is continued.
        send_signal(process, signal.SIGCONT)
    deadline = time.monotonic() + grace_s
    for process in families:
        if not wait_until_gone(process, max(0.0, deadline - time.monotonic())):
            send_signal(process, signal.SIGKILL)
    for process in families:
        if not wait_until_gone(process, 10):
            raise LocalClusterError(f"Process {process.pid} survived SIGKILL.")


def tail(log_file: Path, lines: int = 25) -> str:
    """Return the last lines of a log file, reading no more than its last 64 KiB."""
    try:
        with log_file.open("rb") as log:
            log.seek(max(0, log_file.stat().st_size - 65536))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    # A broker that is ready writes its whole configuration into one line of 30 kB.
    return "\n".join(line[:_LONGEST_LINE] for line in text.splitlines()[-lines:])


def processor_s(pid: int) -> float:
    """Processor time of a process since its start, in seconds; raises OSError if there is none."""
    fields = _stat_fields(pid)
    return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """Memory that a process has now; raises OSError if there is none."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[_RESIDENT_PAGES]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def memory_bytes(pid: int) -> int:
    """Memory of a process: its own, and its part of what it shares; raises OSError if there is none.

    So those of several processes add up to what they take together, however much of it they share.
    """
    return _summed_bytes(pid, "Pss")


def own_bytes(pid: int) -> int:
    """Memory of a process that is no file's, so that no other has it; raises OSError if there is none."""
    return _summed_bytes(pid, "Anonymous")


def together_bytes(pids: Iterable[int]) -> int:
    """Memory of these processes; raises OSError if there is none of one.

    A file that several have mapped counts once, by the process that has most of it in memory.
    """
    of_none, of_files = 0, dict[str, int]()
    for pid in pids:
        mapped = Counter[str]()
        for path, resident, anonymous in _mappings(pid):
            of_none += anonymous
            mapped[path] += resident - anonymous
        of_files |= {path: max(size, of_files.get(path, 0)) for path, size in mapped.items()}
    return of_none + sum(of_files.values())


def _mappings(pid: int) -> Iterator[tuple[str, int, int]]:
    """Yield the path of each mapping, what is in memory of it, and what of that is no file's."""
    path, resident = "", 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, *values = line.split(maxsplit=5)
        if name == "Rss:":
            resident = int(values[0]) * 1024
        elif name == "Anonymous:":
            yield path, resident, int(values[0]) * 1024
        elif not name.endswith(":"):
            path = values[4] if len(values) > 4 else ""


def _summed_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"Process {pid} has ended.")


def listener(among: Sequence[ProcessIdentity], port: int) -> ProcessIdentity | None:
    """The last of these processes that holds a socket listening at this TCP port.

    A parent may hold what its child serves; in a `family` the child comes later.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening_at(port)}
    for process in reversed(among):
        with suppress(OSError):
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    if str(descriptor.readlink()) in sockets:
                        return process
    return None


@contextmanager
def limited(pid: int, which: int, most: int) -> Iterator[None]:
    """Let a process have no more of a resource (``resource.RLIMIT_*``) than this for a while."""
    soft, hard = resource.prlimit(pid, which)
    resource.prlimit(pid, which, (most, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it has ended, and its limits with it
            resource.prlimit(pid, which, (soft, hard))


def _listening_at(port: int) -> Iterator[str]:
    """The inodes of all sockets that listen at this port, of whatever address."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            at = int(fields[_LOCAL].rpartition(":")[2], 16)
            if at == port and fields[_TCP_STATE] == _LISTENS:
                yield fields[_INODE]


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return a process's state as one letter, X if there is none, and when it started."""
    try:
        fields = _stat_fields(pid)
    except OSError:
        return "X", ""
    state, ticks_since_boot = fields[_STATE], fields[_START]
    # The boot id, because after a reboot the ticks count from zero again.
    return state, f"{_BOOT_ID.read_text().strip()}:{ticks_since_boot}"


def _stat_fields(pid: int) -> list[str]:
    # The name in parentheses may hold spaces: what counts comes behind the last one.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()

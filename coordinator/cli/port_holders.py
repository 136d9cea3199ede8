"""The process that holds a port of this machine, as far as Linux shows it to this user (proc(5)).

/proc/net/tcp and tcp6 list every socket with its address, its owner and its inode; the process that has
it open has a link to that inode among its file descriptors, which the same user and root may read.
"""

from __future__ import annotations

import contextlib
import pwd
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

_PROC = Path("/proc")
_TABLES = ("net/tcp", "net/tcp6")
_LISTENS = "0A"
_ORPHAN = "0"
"""The inode of a socket that no process has open any more."""

_GATE = "coordinator.gate.process"
"""Of a sidecar, the coordinator is named, not its gate: signals to the gate do nothing."""

_COMMAND_BEGINS, _COMMAND_ENDS = 40, 80
"""Most characters of a command: a Java program's name comes after pages of class path."""

_Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class PortHolder:
    """The process that has a socket at a port.

    Args:
        user: the user of the process.
        pid: the process; None where it is not shown to us.
        command: its command line, shortened; empty where it is not shown.
    """

    user: str
    pid: int | None = None
    command: str = ""

    def __str__(self) -> str:
        if self.pid is None:
            return f"a process of user {self.user}"
        command = f": {self.command}" if self.command else ""
        return f"process {self.pid} of user {self.user}{command}"


@dataclass(frozen=True, slots=True)
class _Socket:
    address: _Address
    port: int
    listens: bool
    uid: int
    inode: str

    @classmethod
    def read(cls, line: str) -> _Socket:
        """Read one line of a table."""
        _, local, _, state, _, _, _, uid, _, inode, *_ = line.split()
        address, _, port = local.partition(":")
        return cls(_address(address), int(port, 16), state == _LISTENS, int(uid), inode)

    def is_in_the_way_of(self, address: _Address) -> bool:
        """Return whether it may occupy an address; a socket on all addresses occupies each one."""
        return self.address == address or self.address.is_unspecified or address.is_unspecified


def holder_of(address: _Address, port: int) -> PortHolder | None:
    """Return the process that holds a port; None if it cannot be found."""
    found = [
        socket
        for socket in _sockets()
        if socket.port == port and socket.inode != _ORPHAN and socket.is_in_the_way_of(address)
    ]
    if not found:
        return None
    # The listening process, rather than connections that were accepted there.
    held = max(found, key=lambda socket: socket.listens)
    pid = _process_of(held.inode)
    if pid is not None and _GATE in _words(pid):
        pid = _parent_of(pid)
    return PortHolder(_user(held.uid), pid, "" if pid is None else _command(pid))


def _sockets() -> Iterator[_Socket]:
    for table in _TABLES:
        try:
            lines = (_PROC / table).read_text().splitlines()
        except OSError:  # no such family here, or no Linux
            continue
        yield from map(_Socket.read, lines[1:])


def _address(digits: str) -> _Address:
    """Return an address from words of 32 bits in hexadecimal, each in this machine's byte order."""
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    if len(words) == 1:
        return IPv4Address(packed)
    address = IPv6Address(packed)
    return address.ipv4_mapped or address


def _process_of(inode: str) -> int | None:
    """Return the first process by number: a server's workers have its socket open as well."""
    pids = sorted(int(path.name) for path in _PROC.iterdir() if path.name.isdecimal())
    return next((pid for pid in pids if f"socket:[{inode}]" in _open_files(pid)), None)


def _open_files(pid: int) -> Iterator[str]:
    """Yield the open files of a process; none if it is another user's or has ended."""
    with contextlib.suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                yield str(entry.readlink())


def _parent_of(pid: int) -> int | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    return shortened(_words(pid))


def _words(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def shortened(words: str) -> str:
    """Return a command as one line that a terminal shows as it is: its beginning and its end."""
    text = re.sub(r"[^ -~]+", " ", words).strip()
    if len(text) > _COMMAND_BEGINS + _COMMAND_ENDS:
        return f"{text[:_COMMAND_BEGINS]} ... {text[-_COMMAND_ENDS:]}"
    return text


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

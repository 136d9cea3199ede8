"""Port numbers that no other program uses, or will come to use.

A cluster takes one block of consecutive ports on a loopback address, chosen at random. Two rules keep a
port ours between choosing it and listening on it, which for a sidecar's port may be minutes later:

- Blocks lie outside the kernel's ephemeral range, so no outgoing connection is given one of ours.
- A block with even one port in use is passed over whole. A running cluster always listens on some
  port of its block, so a second cluster never takes the ports that the first has only reserved.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

from deploy.local.addresses import LOOPBACK, LOOPBACKS
from deploy.local.errors import LocalClusterError

#: Room for three ZooKeepers with three ports each, a bookie and ten brokers with five each.
BLOCK_SIZE = 64

#: Linux's own default, where a sandbox does not say.
_DEFAULT_EPHEMERAL = (32768, 60999)
_EPHEMERAL_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Below this live the well-known services, and those that people run by hand (6650, 8080, 9092).
_LOWEST = 10240
_HIGHEST = 65535


def ephemeral_range(file: Path = _EPHEMERAL_FILE) -> tuple[int, int]:
    """Return the first and last port that the kernel gives to outgoing connections."""
    try:
        first, last = file.read_text().split()
    except (OSError, ValueError):
        return _DEFAULT_EPHEMERAL
    return int(first), int(last)


def candidate_blocks(ephemeral: tuple[int, int], size: int) -> list[range]:
    """Return every block of `size` ports that touches neither low ports nor the ephemeral range."""
    first, last = ephemeral
    starts = range(_LOWEST, _HIGHEST - size + 2, size)
    return [range(s, s + size) for s in starts if s + size <= first or s > last]


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Say whether nothing is bound to the port on this loopback address."""
    try:
        _bind(host, port)
    except OSError:
        return False
    return True


def _bind(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, port))


def free_block(host: str = LOOPBACK) -> range:
    """Return a block of free consecutive ports of a loopback address, a different one each time.

    It is whole however few are needed: in a smaller one all ports may be free that a cluster reserves.

    Raises:
        LocalClusterError: the machine has no such address, no block is free, or the ephemeral range
            leaves no room for one.
    """
    try:
        _bind(host, 0)
    except OSError as error:
        others = " or ".join(other for other in LOOPBACKS if other != host)
        raise LocalClusterError(
            f"This machine has no {host} ({error.strerror}); choose {others}."
        ) from error
    blocks = candidate_blocks(ephemeral_range(), BLOCK_SIZE)
    random.shuffle(blocks)
    for block in blocks:
        if all(is_free(port, host) for port in block):
            return block
    raise LocalClusterError(
        f"No {BLOCK_SIZE} consecutive free ports outside the ephemeral range; "
        "narrow net.ipv4.ip_local_port_range or stop what listens there."
    )

"""``python -m coordinator.adapters.pulsar.client``: a client of Pulsar, for the coordinator.

Standard input is a connected socket to the coordinator, which ends this process by closing it.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import traceback
from typing import Final

from coordinator.runtime.left_out import leave_out

MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024
"""A message that states a greater size of its content ends this process and takes no more memory."""


def main() -> int:
    """Serve to the end; return the exit code."""
    # The coordinator handles signals, even those sent to both processes, and ends this one.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _bound(resource.RLIMIT_DATA, MEMORY_BYTES_MAX)
    _bound(resource.RLIMIT_CORE, 0)  # an image for each message would fill a disk
    leave_out("google.protobuf")  # of the library: for schemas, and the bus has none
    from coordinator.adapters.pulsar.client.process import serve  # noqa: PLC0415 - loads the library

    try:
        serve(socket.socket(fileno=0))
    except Exception:  # noqa: BLE001 - whatever it is, it is said and ends the process
        traceback.print_exc()
        return 1
    return 0


def _bound(which: int, most: int) -> None:
    """Bound a resource of this process; where the system forbids that, it goes on without."""
    _, hard = resource.getrlimit(which)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    try:
        resource.setrlimit(which, (bound, bound))
    except OSError as error:
        sys.stderr.write(f"the client of Pulsar has no bound of resource {which}: {error}\n")


if __name__ == "__main__":
    # At once: threads of the library may wait for a broker for seconds more.
    os._exit(main())

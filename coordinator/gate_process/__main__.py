"""``python -m coordinator.gate_process FD``: the gate of whoever holds the other end of that socket."""

from __future__ import annotations

import signal
import socket
import sys

import uvloop

from coordinator.gate_process.keeper import serve

if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(
            number, signal.SIG_IGN
        )  # the coordinator's; what it does about them ends this
    with socket.socket(fileno=int(sys.argv[1])) as end:
        uvloop.run(serve(end))

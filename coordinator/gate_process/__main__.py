"""``python -m coordinator.gate_process FD``: the gate of whoever holds the other end of that socket."""

from __future__ import annotations

import signal
import socket
import sys

import uvloop

from coordinator.gate_process.keeper import serve

if __name__ == "__main__":
    # The coordinator's, even if they are sent to both; what it does about them ends this.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as end:
        uvloop.run(serve(end))

"""``python -m coordinator.gate_process FD [LISTENING...]``: the gate of whoever holds FD's other end."""

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
    end, *kept_sockets = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    with end:
        uvloop.run(serve(end, kept_sockets))

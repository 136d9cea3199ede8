"""``python -m coordinator.gate.process FD [LISTENING...]``: the gate of the coordinator behind FD."""

from __future__ import annotations

import signal
import socket
import sys

import uvloop

from coordinator.gate.process.keeper import serve

if __name__ == "__main__":
    # The coordinator handles signals, even those sent to both processes, and ends this one.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end, *kept_sockets = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    with end:
        uvloop.run(serve(end, kept_sockets))

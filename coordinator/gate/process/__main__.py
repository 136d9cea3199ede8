"""``python -m coordinator.gate.process FD LIVENESS [LISTENING...]``: the gate of a coordinator.

The arguments are descriptors of sockets: the channel, the one that liveness is asked on, and those that
listen already.
"""

from __future__ import annotations

import signal
import socket
import sys

import uvloop

from coordinator.runtime.left_out import DRAWING, leave_out


def main() -> None:
    """Run the gate until the coordinator closes the channel."""
    # The coordinator handles signals, even those sent to both processes, and ends this one.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    leave_out(*DRAWING)
    from coordinator.gate.process.liveness import answer_liveness  # noqa: PLC0415 - all that is loaded
    from coordinator.gate.process.server import serve  # noqa: PLC0415 - from here on does without

    end, liveness, *kept_sockets = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    answer_liveness(liveness)
    with end:
        uvloop.run(serve(end, kept_sockets))


if __name__ == "__main__":
    main()

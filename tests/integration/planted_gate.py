"""A gate that drops one SEND, and so its receipt, too: one of the faults of planted_faults.py.

Run as a program in place of ``-m coordinator.gate.process``.
"""

from __future__ import annotations

import runpy

from coordinator.gate.engine.producer import Producer

#: Which of all messages that were held is lost.
LOST = 200


def lose_a_send() -> None:
    """Drop it in place of passing it on."""
    release = Producer.release
    released = 0

    def losing(self: Producer) -> bool:
        nonlocal released
        released += 1
        if released != LOST:
            return release(self)
        self.held_bytes -= len(self.held.popleft().frame)
        return bool(self.held)

    Producer.release = losing  # type: ignore[method-assign]


if __name__ == "__main__":
    lose_a_send()
    runpy.run_module("coordinator.gate.process", run_name="__main__")

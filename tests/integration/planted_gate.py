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
    forward = Producer._forward_first
    forwarded = 0

    def forward_first(producer: Producer) -> None:
        nonlocal forwarded
        forwarded += 1
        if forwarded == LOST:
            producer.held_bytes -= len(producer.held.popleft().frame)
        else:
            forward(producer)

    Producer._forward_first = forward_first  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    lose_a_send()
    runpy.run_module("coordinator.gate.process", run_name="__main__")

"""A sidecar with two faults, for the test of the checker that must find them.

Run as a program in place of ``-m coordinator.cli``: the rest of the command line is the sidecar's own.
"""

from __future__ import annotations

from coordinator.cli.__main__ import main
from coordinator.core import decisions
from coordinator.gate.producer import Producer

#: Which of all messages that were held is lost.
LOST = 200


def lose_a_send() -> None:
    """The gate drops one SEND, and so its receipt, too."""
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


def raise_without_a_grant() -> None:
    """Every broker of a strict group takes half of the limit, whatever its books say."""
    vars(decisions)["limit_of"] = lambda _parts, limit: limit // 2


if __name__ == "__main__":
    lose_a_send()
    raise_without_a_grant()
    main()

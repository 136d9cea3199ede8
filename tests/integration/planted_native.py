"""A native sidecar with a fault, for the test of the checker that must find it.

Run as a program in place of ``-m coordinator.cli``: the rest of the command line is the sidecar's own.
"""

from __future__ import annotations

from coordinator.cli.__main__ import main
from coordinator.core.model import Rates
from coordinator.native.engine import steering
from coordinator.native.engine.entries import UNLIMITED, Record


def forget_the_bucket() -> None:
    """Keep records at the limits, as if no broker started each interval with a full bucket."""

    def record_of(limits: Rates, _interval_s: int) -> Record:
        messages, size = limits.publish_messages, limits.publish_bytes
        return Record(
            UNLIMITED if messages is None else messages, UNLIMITED if size is None else size
        )

    def capacity_of(record: Record, _interval_s: int) -> tuple[int | None, int | None]:
        messages, size = (None if rate < 0 else rate for rate in record)
        return messages, size

    vars(steering).update(record_of=record_of, capacity_of=capacity_of)


if __name__ == "__main__":
    forget_the_bucket()
    main()

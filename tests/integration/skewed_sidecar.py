"""A sidecar whose machine's clock is three seconds late, as far as Python reads it."""

from __future__ import annotations

import time

from coordinator.cli.__main__ import main

_BEHIND_NS = 3_000_000_000
_true_time_ns = time.time_ns


def _late_time_ns() -> int:
    return _true_time_ns() - _BEHIND_NS


if __name__ == "__main__":
    time.time_ns = _late_time_ns
    main()

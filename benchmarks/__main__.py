"""``python -m benchmarks [--only PREFIX]``: a line of JSON per figure on standard output."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping

from benchmarks import (
    api,
    backlog,
    bucket,
    gate,
    gate_broker,
    gate_sharing,
    law,
    native,
    reconciliation,
    shards,
    sidecar,
    sim,
    spark,
    wire,
)
from benchmarks.figures import Measurement

_MODULES = (
    *(law, bucket, gate, gate_broker, gate_sharing, native, reconciliation),
    *(wire, shards, api, sidecar, backlog, sim, spark),
)
MEASUREMENTS: Mapping[str, Measurement] = {
    prefix: measure for module in _MODULES for prefix, measure in module.MEASUREMENTS.items()
}


def main() -> int:
    """Measure what was asked for; 0 done, 2 nothing has that name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", metavar="PREFIX", help="figures that begin so")
    only: str = parser.parse_args().only
    # An exception, so that whatever was started is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    chosen = (
        measure
        for prefix, measure in MEASUREMENTS.items()
        if prefix.startswith(only) or only.startswith(prefix)
    )
    printed = 0
    for measure in dict.fromkeys(chosen):
        for figure in measure():
            if figure.name.startswith(only):
                sys.stdout.write(figure.line() + "\n")
                sys.stdout.flush()
                printed += 1
    if not printed:
        known = ", ".join(MEASUREMENTS)
        sys.stderr.write(f"no figure begins with {only!r}; there are {known}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

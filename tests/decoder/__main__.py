"""Mutations of what clients send, through the gate and before Pulsar's own decoder.

    python -m tests.decoder --cases N --seed S

A case is a connection with two producers and two consumers, or a new one, to which a client sends some
frames of the corpus in one piece or in many; one or more of them are mutated (mutations.py). What the
gate passes is read by the decoders of two Pulsars (judge.py). Then

* both read the same, all of the command and nothing else;
* a broker that goes by what they read (belief.py) has the same producers and consumers, owes as many
  receipts and has as many permits as the gate believes, and the gate has charged what was published;
* CONNECT and LOOKUP, which the gate writes anew, name no field that is unknown, none twice, no role that
  the gate did not see, no broker that is not its own and no listener;
* all of that is the same with the gate's C helper and without.

A failure names seed and case; ``--first`` goes straight there. Of a case, only what is needed for it to
fail is shown.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from os import cpu_count

from tests.decoder import judge
from tests.decoder.court import DIFFERENT, Court, differences, report

_SHARE = 10_000
"""Cases that a process is given at once, and ends before an interrupted run does."""

_SHOWN = 5
"""Differences of a share that are shown; all are counted."""


def _run(seed: int, last: int, first: int) -> tuple[Counter[str], list[str]]:
    ends: Counter[str] = Counter()
    found: list[str] = []
    with Court() as court:
        for case, _ in differences(court, seed, range(first, min(first + _SHARE, last)), ends):
            if len(found) < _SHOWN:
                found.append(report(court, case, seed))
    return ends, found


def main() -> int:
    """Read the command line and run the cases."""
    parser = argparse.ArgumentParser(prog="python -m tests.decoder", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    options = parser.parse_args()
    names = " and ".join(library.name for library in judge.libraries())
    sys.stdout.write(f"seed {options.seed}, {options.cases} cases before {names}\n")
    sys.stdout.flush()
    judge.compiled()
    ends: Counter[str] = Counter()
    last = options.first + options.cases
    with ProcessPoolExecutor(cpu_count()) as pool:
        shares = pool.map(partial(_run, options.seed, last), range(options.first, last, _SHARE))
        for counted, found in shares:
            ends += counted
            sys.stdout.write("".join(f"DIFFERENT: {text}\n" for text in found))
            sys.stdout.flush()
    for end, count in ends.most_common():
        sys.stdout.write(f"{count:>9}  {end}\n")
    return 1 if ends[DIFFERENT] else 0


if __name__ == "__main__":
    sys.exit(main())

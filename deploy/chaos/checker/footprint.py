"""Memory, file descriptors, threads and tasks of every process of a sidecar stay flat.

Compared are a process's first and last quarters, by their medians; each process by itself, so that what
one gives back hides no leak of another. What a mishap itself takes, such as the memory and descriptors
of a thousand connections, is not counted: samples from its beginning until a second after its end are
left out. A process that lived for less than two minutes is too young to be judged; one that lived for ten
is held closer, from its second quarter on, when caches are full: 22 kB a second are found within an hour.
A run of more than ten minutes in which no process could be judged shows nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from deploy.chaos.checker.history import Breach, Footprint, History

#: A process reads its code, meets its groups and fills its caches in its first seconds.
_GROWN_UP_S = 20.0
SHORTEST_LIFE_S = 120.0
_LONG_S = 600.0
_AFTER_S = 1.0
#: Growth up to these amounts is no leak. Python's allocator and the C libraries keep what they once
#: needed, such as for a thousand connections at up to 64 KiB; clients that come back open a few
#: connections more than they had; tasks are the requests to the admin API at the moment.
_MORE: Mapping[str, int] = {
    "memory_bytes": 64 * 1024 * 1024,
    "descriptors": 10,
    "threads": 4,
    "tasks": 10,
}
#: Once caches are full: in an hour 3 MiB were seen, and 14 MiB that a thousand connections left.
_MORE_OF_LONG: Mapping[str, int] = {**_MORE, "memory_bytes": 24 * 1024 * 1024, "descriptors": 5}
_WORDS: Mapping[str, str] = {
    "memory_bytes": "bytes of memory",
    "descriptors": "file descriptors",
    "threads": "threads",
    "tasks": "tasks",
}


def check(history: History) -> Iterator[Breach]:
    """Look at every process that lived long enough."""
    lives = judged(history)
    if not lives and history.ended_s - history.settled_s > _LONG_S:
        yield Breach("footprint", "No process lived long enough to be judged, nothing is shown")
    for (sidecar, pid), samples in lives.items():
        quarter = max(1, len(samples) // 4)
        long = samples[-1].at_s - samples[0].at_s >= _LONG_S
        first = samples[quarter : 2 * quarter] if long else samples[:quarter]
        for attribute, more in (_MORE_OF_LONG if long else _MORE).items():
            before, after = (
                median(getattr(sample, attribute) for sample in part)
                for part in (first, samples[-quarter:])
            )
            if after > before + more:
                grew = f"from {before:,.0f} to {after:,.0f} {_WORDS[attribute]}"
                yield Breach("footprint", f"The sidecar of {sidecar} (process {pid}) went {grew}")


def judged(history: History) -> Mapping[tuple[str, int], Sequence[Footprint]]:
    """The samples of every process that can be judged, those while something was wrong left out."""
    lives: dict[tuple[str, int], list[Footprint]] = defaultdict(list)
    for sample in history.footprints:
        lives[sample.sidecar, sample.pid].append(sample)
    found = {}
    for life, samples in lives.items():
        quiet = [
            sample
            for sample in samples
            if sample.at_s > samples[0].at_s + _GROWN_UP_S and _is_quiet(history, sample.at_s)
        ]
        if quiet and quiet[-1].at_s - samples[0].at_s >= SHORTEST_LIFE_S:
            found[life] = quiet
    return found


def _is_quiet(history: History, at_s: float) -> bool:
    return not any(m.began_s <= at_s <= m.ended_s + _AFTER_S for m in history.mishaps)

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

from deploy.chaos.checker.history import Finding, Footprint, History

#: A process reads its code, meets its groups and fills its caches in its first seconds.
_GROWN_UP_S = 20.0
SHORTEST_LIFE_S = 120.0
_LONG_S = 600.0
_AFTER_S = 1.0
#: Python's allocator and the C libraries keep what they once needed, such as for a thousand connections
#: at up to 64 KiB: so much is no leak.
_MORE_BYTES = 64 * 1024 * 1024
#: Less than that of a thousand connections at once is kept; in an hour 3 MiB and 14 MiB were seen.
_MORE_BYTES_OF_LONG = 24 * 1024 * 1024
#: Clients that come back open a few connections more than they had.
_MORE_DESCRIPTORS = 10
_MORE_DESCRIPTORS_OF_LONG = 5
_MORE_THREADS = 4
#: Whatever is asked of the admin API at the moment.
_MORE_TASKS = 10


def check(history: History) -> Iterator[Finding]:
    """Look at every process that lived long enough."""
    lives = judged(history)
    if not lives and history.ended_s - history.settled_s > _LONG_S:
        yield Finding("footprint", "No process lived long enough to be judged, nothing is shown")
    for (sidecar, pid), samples in lives.items():
        quarter = max(1, len(samples) // 4)
        long = samples[-1].at_s - samples[0].at_s >= _LONG_S
        first = samples[quarter : 2 * quarter] if long else samples[:quarter]
        for what, before, after, more in _figures(first, samples[-quarter:], long=long):
            if after > before + more:
                grew = f"from {before:,.0f} to {after:,.0f} {what}"
                yield Finding("footprint", f"The sidecar of {sidecar} (process {pid}) went {grew}")


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


def _figures(
    first: Sequence[Footprint], last: Sequence[Footprint], *, long: bool
) -> Iterator[tuple[str, float, float, float]]:
    for what, attribute, more in (
        ("bytes of memory", "memory_bytes", _MORE_BYTES_OF_LONG if long else _MORE_BYTES),
        (
            "file descriptors",
            "descriptors",
            _MORE_DESCRIPTORS_OF_LONG if long else _MORE_DESCRIPTORS,
        ),
        ("threads", "threads", _MORE_THREADS),
        ("tasks", "tasks", _MORE_TASKS),
    ):
        before, after = (median(getattr(s, attribute) for s in part) for part in (first, last))
        yield what, before, after, more

"""Cases before the decoders of two Pulsars, many at once; and what is least in those that differ."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Self

from tests.decoder.cases import Case, Run, case_of, run
from tests.decoder.comparing import Difference, settle
from tests.decoder.judge import Judge, Reading, libraries
from tests.gate.helper import deciding

DIFFERENT: Final = "DIFFERENT"
"""The verdict on a case that the gate and Pulsar take differently."""

BATCH: Final = 400
"""Cases whose frames are judged at once."""

_GARBAGE: Final = 300_000
"""Objects between two looks for garbage: those of a batch live until it is judged."""


@dataclass(slots=True)
class _Decided:
    run: Run
    end: str
    difference: Difference | None

    def shown(self) -> str:
        """Return the bytes of a case that a client and a broker see."""
        passed = b"".join(self.run.passed).hex()
        return f"{self.run.end or 'passed'}: {passed}, the client is sent {self.run.told.hex()}"


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Exempt what is there already, and look for garbage seldom: half of the time would go there."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class Court:
    """Runs cases before the decoders of two Pulsars."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._stack.enter_context(_seldom_collecting())
        self._judges = [self._stack.enter_context(Judge(library)) for library in libraries()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def hear(self, cases: Sequence[Case]) -> Iterator[tuple[Case, str, Difference | None]]:
        """Run cases; tell how each ended, and what was different."""
        fast = self._decide(cases, by_runs=True)
        plain = iter(self._decide([case for case in cases if case.both_ways], by_runs=False))
        for case, one in zip(cases, fast, strict=True):
            other = next(plain) if case.both_ways else one
            difference = one.difference or other.difference
            if one.shown() != other.shown():
                difference = Difference(f"with the C helper {one.shown()}\nwithout {other.shown()}")
            yield case, DIFFERENT if difference else one.end, difference

    def _decide(self, cases: Sequence[Case], *, by_runs: bool) -> list[_Decided]:
        with deciding(by_runs):
            runs = [run(case) for case in cases]
            decided = []
            for case, each, readings in zip(cases, runs, self._read(runs), strict=True):
                end, difference = each.end, None
                try:
                    end = settle(case, each, readings)
                except Difference as found:
                    difference = found
                decided.append(_Decided(each, end, difference))
            return decided

    def _read(self, runs: Sequence[Run]) -> list[list[Reading]]:
        """Return Pulsar's reading of all that passed; where two Pulsars differ, the reading says so."""
        frames = [frame for each in runs for frame in each.passed]
        first, *others = [judge.read(frames) for judge in self._judges]
        for other in others:
            for at, (one, two) in enumerate(zip(first, other, strict=True)):
                if _essence(one) != _essence(two):
                    first[at] = replace(one, others=frozenset({f"another Pulsar reads {two}"}))
        readings = iter(first)
        return [list(islice(readings, len(each.passed))) for each in runs]


def _essence(reading: Reading) -> tuple[object, ...]:
    return bool(reading.refused), reading.kind, reading.end, reading.metadata_end


def smaller(case: Case) -> Iterator[Case]:
    """The same with something left out."""
    for at in range(len(case.frames)):
        if len(case.frames) > 1:
            yield replace(case, frames=case.frames[:at] + case.frames[at + 1 :], cuts=[])
    if case.cuts:
        yield replace(case, cuts=[])
    for name in ("vouches", "certified", "challenged", "limited", "delayed"):
        if getattr(case, name):
            less = replace(case)
            setattr(less, name, False)
            yield less


def smallest(court: Court, case: Case) -> tuple[Case, Difference]:
    """As little of a case as is still different."""
    ((_, _, difference),) = court.hear([case])
    assert difference is not None
    for less in smaller(case):
        ((_, _, found),) = court.hear([less])
        if found is not None:
            return smallest(court, less)
    return case, difference


def differences(
    court: Court, seed: int, numbers: Iterable[int], ends: Counter[str]
) -> Iterator[tuple[Case, Difference]]:
    """Run cases by their numbers, and count how they end."""
    remaining = iter(numbers)
    while batch := [case_of(seed, number) for number in islice(remaining, BATCH)]:
        for case, end, difference in court.hear(batch):
            ends[end] += 1
            if difference is not None:
                yield case, difference


def report(court: Court, case: Case, seed: int) -> str:
    """Return the differences of a case, and the command that shows it again."""
    number = case.name.partition("/")[2]
    case, difference = smallest(court, case)
    frames = "\n".join(f"  {frame.hex()}" for frame in case.frames)
    return (
        f"{difference}\n{replace(case, frames=[])}\nThe client sends\n{frames}\n"
        f"python -m tests.decoder --seed {seed} --first {number} --cases 1\n"
    )

"""The choices in the environment: which runs, each with its seed, its policy and its mishaps.

SEED chooses one run, SEEDS many of them, such as ``1-100`` or ``1,5,20-30``. MISHAPS is how many, or the
names of those that shall happen in this order; MINUTES is when no further one begins, EVERY how many
seconds lie between the beginnings of two, if they are over by then. POLICY is the group's; of many runs,
those with an even seed are strict unless it is given. ENFORCE=native leaves the gates out: mishaps of
gates do not happen then, and no group is strict.
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.config.model import GATE, NATIVE
from coordinator.core.transfer.policies import BALANCED, STRICT
from deploy import command_line
from deploy.chaos.mishaps import possible
from deploy.chaos.schedule import Planned, of_names, schedule
from deploy.local.errors import WrongUseError

BROKERS = ("broker-1", "broker-2", "broker-3")
MOST_SEEDS = 10_000
MOST_MISHAPS = 10_000
"""Of one run: they take nearly two days."""

_MINUTES = 10.0
_MISHAPS_A_MINUTE = 4
#: Of each of many runs: how one mishap is got over depends on those before it, but not on many.
_MISHAPS_OF_MANY = 4
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class Choice:
    """One run to come.

    Attributes:
        seed: of where, how long and, unless they are named, which mishaps.
        policy: the group's ``overshootPolicy``.
        minutes: after which no further mishap begins.
        every_s: from the beginning of one mishap to that of the next; 0 when it may follow at once.
        planned: the mishaps.
        path: where limits are enforced.
    """

    seed: int
    policy: str
    minutes: float
    every_s: float
    planned: tuple[Planned, ...]
    path: str = GATE

    def __str__(self) -> str:
        """Say which run it is."""
        return f"seed {self.seed}, {self.policy}" + (f", {self.path}" if self.path != GATE else "")


def chosen() -> tuple[Choice, ...]:
    """Return the runs that are asked for, at least one.

    Raises:
        WrongUseError: what is asked for makes no sense; the text names the variable.
    """
    minutes, every_s = _number("MINUTES", _MINUTES), _number("EVERY", 0.0)
    if not minutes:
        raise WrongUseError("MINUTES is 0: more than 0 are needed.")
    path = command_line.enforcement_path((GATE, NATIVE))
    if path == NATIVE and os.environ.get("POLICY") and command_line.policy() == STRICT:
        raise WrongUseError("POLICY=strict: brokers' own limiters cannot keep it; use balanced.")
    if not os.environ.get("SEEDS"):
        seed = _seed()
        a_minute = 60 / every_s if every_s else _MISHAPS_A_MINUTE
        planned = _planned(seed, max(1, round(min(minutes * a_minute, MOST_MISHAPS))), path)
        return (Choice(seed, command_line.policy(), minutes, every_s, planned, path),)
    if os.environ.get("SEED"):
        raise WrongUseError("SEED and SEEDS are both given: use one of them.")
    return tuple(
        Choice(
            seed,
            _policy_of_many(seed, path),
            minutes,
            every_s,
            _planned(seed, _MISHAPS_OF_MANY, path),
            path,
        )
        for seed in _seeds(os.environ["SEEDS"])
    )


def _number(name: str, default: float) -> float:
    text = os.environ.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise WrongUseError(f"{name} is {text!r}: a number of 0 or more is needed.")
    return number


def _seed() -> int:
    text = os.environ.get("SEED") or str(random.SystemRandom().randrange(1_000_000))
    if not text.isdecimal():
        raise WrongUseError(f"SEED is {text!r}: a whole number is needed.")
    return int(text)


def _seeds(text: str) -> Sequence[int]:
    """Every seed once, in the order in which they are given."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise WrongUseError(
                f"SEEDS is {text!r}: numbers and ranges are needed, such as 1-100 or 1,5,20-30."
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise WrongUseError(
                f"SEEDS has {part.strip()}: a range goes upwards, as {last}-{first}."
            )
        if last - first >= MOST_SEEDS - len(found):
            raise WrongUseError(f"SEEDS is {text!r}: {MOST_SEEDS:,} are possible at most.")
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


def _policy_of_many(seed: int, path: str) -> str:
    if os.environ.get("POLICY"):
        return command_line.policy()
    return BALANCED if seed % 2 or path == NATIVE else STRICT


def _planned(seed: int, count: int, path: str) -> tuple[Planned, ...]:
    """The mishaps of one run: those of MISHAPS, or `count` drawn by the seed."""
    known = possible(path)
    wanted = os.environ.get("MISHAPS") or str(count)
    if wanted.isdecimal():
        if int(wanted) == 0:
            raise WrongUseError("MISHAPS is 0: at least one is needed, or their names.")
        if int(wanted) > MOST_MISHAPS:
            raise WrongUseError(f"MISHAPS is {wanted}: {MOST_MISHAPS:,} are possible at most.")
        return tuple(schedule(seed, int(wanted), BROKERS, known))
    names = [name.strip() for name in wanted.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise WrongUseError(
            f"MISHAPS names {', '.join(unknown)}: with ENFORCE={path} use {', '.join(sorted(known))}."
        )
    return tuple(of_names(seed, names, BROKERS))

"""``--fail-on``: limits that the figures of every event must keep, so that they can stop a build.

``settle_s<=2,peak_1s<=0.05,jain>=0.999`` means that each judged event of each group settles within two
seconds, and so on. A time that never comes misses every bound: a group that never settles has not settled
within two seconds. Another figure is none where nothing was wanted, as of clients that are connected and
send nothing; such an event is spared, unless no event has the figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.figures import DEFINITIONS
from spark_jobs.refusals import RefusedInput

_CONDITION = re.compile(r"\s*(?P<name>[a-z0-9_]+)\s*(?P<sign><=|>=)\s*(?P<bound>-?\d+(\.\d+)?)\s*")
_TIMES: Mapping[str, str] = {"settle_s": "", "reclaim_s": "crash"}
"""Figures that are none when they never come, and the only kind of event that has one."""
_SHORT = ("peak_10s",)
"""Ten seconds in a row may not exist in a short period."""


@dataclass(frozen=True, slots=True)
class FigureBound:
    """One figure and the bound that it must keep."""

    name: str
    sign: str
    bound: float

    def misses(self, event: Mapping[str, Any]) -> bool:
        """Whether an event misses the bound."""
        value = event[self.name]
        if value is None:
            return self.name in _TIMES and _TIMES[self.name] in ("", *event["kinds"])
        return bool(value > self.bound if self.sign == "<=" else value < self.bound)

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.bound:g}"


def parse(text: str) -> tuple[FigureBound, ...]:
    """Read conditions, separated by commas; an empty text has none.

    Raises:
        RefusedInput: one of them is no condition, or names no figure.
    """
    conditions = []
    for part in filter(str.strip, text.split(",")):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise RefusedInput(f"{part.strip()!r}: write FIGURE<=NUMBER or FIGURE>=NUMBER")
        if match["name"] not in DEFINITIONS:
            known = ", ".join(DEFINITIONS)
            raise RefusedInput(f"{match['name']!r} is no figure; there are {known}")
        conditions.append(FigureBound(match["name"], match["sign"], float(match["bound"])))
    return tuple(conditions)


def missed(conditions: Sequence[FigureBound], events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the targets that the judged events miss; one line per event and condition."""
    judged = [event for event in events if event["judged"]]
    if conditions and not judged:
        return ["no event can be judged: every period is shorter than five seconds"]
    found = [
        f"{event['resource_group']} {event['dimension']} event {event['event']}"
        f" ({', '.join(event['kinds'])}): {condition.name} is {_shown(event[condition.name])},"
        f" wanted {condition}"
        for event in judged
        for condition in conditions
        if condition.misses(event)
    ]
    asked = {condition.name for condition in conditions} - {*_TIMES, *_SHORT}
    lacking = [name for name in sorted(asked) if all(event[name] is None for event in judged)]
    return found + [
        f"no event has {name}: nothing was wanted, certified or known" for name in lacking
    ]


def _shown(value: float | None) -> str:
    return "never" if value is None else f"{value:g}"

"""``--fail-on``: limits that the figures of every event must keep, so that they can stop a build.

``settle_s<=2,peak_1s<=0.05,jain>=0.999`` means that each judged event of each group settles within two
seconds, and so on. A figure that an event does not have fails a condition: a group that never settles has
not settled within two seconds. Figures that belong to some kinds of events only are not asked of others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.figures import DEFINITIONS
from spark_jobs.refusals import RefusedInput

_CONDITION = re.compile(r"\s*(?P<name>[a-z0-9_]+)\s*(?P<sign><=|>=)\s*(?P<bound>-?\d+(\.\d+)?)\s*")
_ONLY_AFTER: Mapping[str, str] = {"reclaim_s": "crash"}
#: Ten seconds in a row may not exist in a short period.
_MAY_BE_MISSING = ("peak_10s",)


class BadCondition(RefusedInput):
    """A condition that cannot be understood; the message names it and what to write."""


@dataclass(frozen=True, slots=True)
class FigureBound:
    """One figure and the bound that it must keep."""

    name: str
    sign: str
    bound: float

    def holds(self, value: float | None) -> bool:
        """Whether a value keeps the bound; a missing one does not."""
        if value is None:
            return False
        return value <= self.bound if self.sign == "<=" else value >= self.bound

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.bound:g}"


def parse(text: str) -> tuple[FigureBound, ...]:
    """Read conditions, separated by commas; an empty text has none.

    Raises:
        BadCondition: one of them is no condition, or names no figure.
    """
    conditions = []
    for part in filter(str.strip, text.split(",")):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise BadCondition(f"{part.strip()!r}: write FIGURE<=NUMBER or FIGURE>=NUMBER")
        if match["name"] not in DEFINITIONS:
            known = ", ".join(DEFINITIONS)
            raise BadCondition(f"{match['name']!r} is no figure; there are {known}")
        conditions.append(FigureBound(match["name"], match["sign"], float(match["bound"])))
    return tuple(conditions)


def missed(conditions: Sequence[FigureBound], events: Sequence[Mapping[str, object]]) -> list[str]:
    """Describe the targets that the judged events miss; one line per event and condition."""
    judged = [event for event in events if event["judged"]]
    if conditions and not judged:
        return ["no event can be judged: every period is shorter than five seconds"]
    found = []
    for event in judged:
        for condition in conditions:
            value = event[condition.name]
            assert value is None or isinstance(value, int | float)
            kinds = event["kinds"]
            assert isinstance(kinds, list)
            wanted = _ONLY_AFTER.get(condition.name)
            spared = wanted is not None and wanted not in kinds
            absent = value is None and condition.name in _MAY_BE_MISSING
            if not spared and not absent and not condition.holds(value):
                shown = "never" if value is None else f"{value:g}"
                found.append(
                    f"{event['resource_group']} {event['dimension']} event {event['event']}"
                    f" ({', '.join(kinds)}): {condition.name} is {shown}, wanted {condition}"
                )
    return found

"""Advice as a file for ``groups apply``: beside each group one that observes it at the advised limits.

The group itself is left as it is, and nothing is held back: what would wait is counted first, by metrics
and ``explain``. A limit is a step away from the one in force at most (advice.py). A dimension whose
demand is not known is left out with a comment: while the limit in force holds it back, there is nothing
to observe above it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from coordinator.core.demand.observing import OBSERVE

SUFFIX = "-advised"
"""Behind a group's name: the name of the one that observes it."""

_NAME = re.compile(r"[\w.:=-]{1,255}", re.ASCII)
"""As the store's documents have it; a job that is shipped alone does not know them."""
_SETTINGS = {"law": "law", "weights": "weights", "overshoot_policy": "overshootPolicy"}


def as_yaml(rows: Sequence[Mapping[str, Any]], share: float) -> str:
    """Return the file.

    Args:
        rows: advice, as advise.py gives it.
        share: the part of the time that may be throttled.
    """
    notes = [
        f"limits that would have throttled for {share:.3%} of the recorded time at most",
        "nothing is held back: look at `pulsar-quota explain` of these groups first",
    ]
    groups: dict[str, dict[str, Any]] = {}
    names = {row["resource_group"] for row in rows}
    for row in rows:
        name = row["resource_group"]
        trial = f"{name}{SUFFIX}"
        if name.endswith(SUFFIX) and name.removesuffix(SUFFIX) in names:
            continue  # a trial of an earlier time
        if name in ("", ".", "..") or not _NAME.fullmatch(trial):
            notes.append(f"left out: {trial!r} is no name that a group can have")
            continue
        if row["limit"] is None:
            notes.append(
                f"left out: {name} {row['dimension']}: demand is not known; raise its own limit"
            )
            if row["step"] is not None:
                notes[-1] += f" to {row['step']} and record again"
            continue
        settings = row["settings"]
        kept = {told: settings[of] for of, told in _SETTINGS.items() if settings[of] is not None}
        group = groups.setdefault(trial, {**kept, "enforcement": OBSERVE, "observes": name})
        group[row["dimension"]] = row["step"]
    comments = "".join(f"# {note}\n" for note in notes)
    return comments + str(yaml.safe_dump({"groups": groups}, sort_keys=False))

"""``--set GROUP.SETTING=VALUE``: what is to be other than it was, as people write it.

Settings have the names that the admin API gives them. A rate of -1 is "not limited", as in Pulsar.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from coordinator.core.allocation.laws import LAWS
from coordinator.core.allocation.splitting import WEIGHTS
from coordinator.core.model import Dimension
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.replay import Change
from spark_jobs.refusals import RefusedInput

_UNLIMITED = -1
_DIMENSIONS = {dimension.value: dimension for dimension in Dimension}


def parse(texts: Sequence[str]) -> dict[str, Change]:
    """Read changes; several of one group add up.

    Raises:
        RefusedInput: one of them is no change.
    """
    changes: dict[str, Change] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        group, dot, setting = name.rpartition(".")
        if not (equals and dot and group):
            raise RefusedInput(
                f"{text!r}: write GROUP.SETTING=VALUE, for example orders.publishRateInMsgs=6000"
            )
        changes[group] = _changed(changes.get(group, Change()), setting, value, text)
    return changes


def _changed(change: Change, setting: str, value: str, text: str) -> Change:
    dimension = _DIMENSIONS.get(setting)
    if dimension is not None:
        return replace(change, limits={**(change.limits or {}), dimension: _rate(value, text)})
    if setting not in _NAMED:
        known = ", ".join([*_DIMENSIONS, *_NAMED])
        raise RefusedInput(f"{text!r}: {setting!r} is no setting; there are {known}")
    names, apply = _NAMED[setting]
    if value not in names:
        raise RefusedInput(f"{text!r}: {value!r} is no {setting}; there are {', '.join(names)}")
    return apply(change, value)


def _rate(value: str, text: str) -> int | None:
    try:
        rate = int(value)
    except ValueError:
        rate = _UNLIMITED - 1
    if rate < _UNLIMITED:
        raise RefusedInput(f"{text!r}: write a whole number per second, or -1 for no limit")
    return None if rate == _UNLIMITED else rate


_NAMED: Mapping[str, tuple[Collection[str], Callable[[Change, str], Change]]] = {
    "law": (LAWS, lambda change, name: replace(change, law=name)),
    "overshootPolicy": (POLICIES, lambda change, name: replace(change, overshoot_policy=name)),
    "weights": (WEIGHTS, lambda change, name: replace(change, weights=name)),
}
"""Settings that have a name for a value: the names, and how one is put into a change."""

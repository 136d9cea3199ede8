"""The keys that PIP-82 gives a broker for the same purposes, read as ours.

They stand in a broker's configuration; an operator who brings them along gets the same effect, and a hint
with our name for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from coordinator.config.forms import ConfigError

_SWITCH: Final = "resourceUsagePublishToTopic"
_TOPIC: Final = "resourceUsagePublishTopicName"
_OURS: Final[Mapping[str, str]] = {
    _TOPIC: "bus_topics",
    "resourceUsagePublishIntervalInSecs": "report_interval_seconds",
    "resourceUsageTransportPublishIntervalInSecs": "report_interval_seconds",
}
"""PIP-82's keys, and the one that a broker really has, by our names."""


def translated(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with our keys in place of PIP-82's.

    Raises:
        ConfigError: a key stands twice, under both names, or asks for no reports.
    """
    found = dict(document)
    if found.pop(_SWITCH, True) is not True:
        raise ConfigError(
            f"{_SWITCH}: without reports no limit could be shared; remove it, or stop the sidecar"
        )
    for theirs, ours in _OURS.items():
        if theirs not in found:
            continue
        if ours in found:
            raise ConfigError(f"{theirs}: means the same as {ours}, which is set, too; remove one")
        value = found.pop(theirs)
        found[ours] = [value] if theirs == _TOPIC and isinstance(value, str) else value
    return found


def hints(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return our name for each of PIP-82's keys in a configuration."""
    told = [f"{theirs} is {ours} here" for theirs, ours in _OURS.items() if theirs in document]
    if _SWITCH in document:
        told.append(f"{_SWITCH} is always on here: remove it")
    return tuple(told)

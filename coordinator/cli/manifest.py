"""Groups as a file: read by ``groups apply`` and written by ``groups export``.

::

    groups:
      orders:
        publishRateInMsgs: 3000
        law: max-min
        tenants: [shop]
        namespaces: [bank/orders]

The file states everything about the groups that it names: a rate that is absent is not limited, a setting
that is absent has its default. Attachments stay as they are where ``tenants`` or ``namespaces`` is
absent; where one is present, owners that it does not list are detached. Groups that are not named stay as
they are.

A file is checked as a whole before anything is changed. JSON is YAML, so both are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from coordinator.cli.answers import DIMENSION_NAMES, DefinitionAnswer
from coordinator.cli.failures import WrongUse
from coordinator.core.allocation.laws import LAWS
from coordinator.core.allocation.splitting import WEIGHTS
from coordinator.core.demand.observing import ENFORCEMENTS
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.transfer.policies import PARTITION_POLICIES, POLICIES
from coordinator.insight.model.answer import UNLIMITED
from coordinator.wire.documents import validate_name

_MAX_RATES = dict(zip(DIMENSION_NAMES, (2**31 - 1, 2**63 - 1) * 2, strict=True))
_CHOICES = {
    "law": tuple(LAWS),
    "weights": tuple(WEIGHTS),
    "overshootPolicy": tuple(POLICIES),
    "partitionPolicy": tuple(PARTITION_POLICIES),
    "enforcement": ENFORCEMENTS,
}
_DEFAULT_GROUP = ResourceGroup("defaults", Rates())
DEFAULTS: dict[str, int | str] = dict.fromkeys(DIMENSION_NAMES, UNLIMITED) | {
    "law": _DEFAULT_GROUP.law,
    "weights": _DEFAULT_GROUP.weights,
    "overshootPolicy": _DEFAULT_GROUP.overshoot_policy,
    "partitionPolicy": _DEFAULT_GROUP.partition_policy,
    "enforcement": _DEFAULT_GROUP.enforcement,
    "observes": _DEFAULT_GROUP.observes,
}
_OWNERS = {"tenants": 1, "namespaces": 2}


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared state of one group.

    Args:
        fields: rates and settings by their names on the wire; a field that is missing stays as it is.
        attached: the owners that belong to it, as ``tenants/T`` or ``namespaces/T/N``.
        exact: the kinds of owners of which no others may belong to it.
    """

    fields: Mapping[str, int | str]
    attached: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()


class _Loader(yaml.SafeLoader):
    """Refuses a key that appears twice; YAML's own loader would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in seen:
            if seen.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key} stands there twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


def read(path: Path) -> dict[str, Declared]:
    """Read and check a file.

    Raises:
        WrongUse: the file cannot be read or used; the message names the place and the fix.
    """
    try:
        document = yaml.load(path.read_bytes(), _Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise WrongUse(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise WrongUse(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or list(document) != ["groups"]:
        raise WrongUse(f"{path}: write one key, groups, and the groups by name below it")
    groups = document["groups"]
    if not isinstance(groups, dict):
        raise WrongUse(f"{path}: groups: write the groups by name")
    return {name: _declared(f"{path}: groups.{name}", name, body) for name, body in groups.items()}


def write(definitions: Sequence[DefinitionAnswer]) -> dict[str, Any]:
    """Return definitions as a file's content; default values are left out."""
    groups: dict[str, Any] = {}
    for found in definitions:
        fields: Mapping[str, Any] = found
        body = {name: fields[name] for name in DEFAULTS if fields[name] != DEFAULTS[name]}
        attachments: Mapping[str, Any] = found["attachments"]
        groups[found["name"]] = body | {kind: attachments[kind] for kind in _OWNERS}
    return {"groups": groups}


def _declared(place: str, name: Any, body: Any) -> Declared:
    _check_name(place, name)
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise WrongUse(f"{place}: write fields such as publishRateInMsgs: 3000")
    attached: list[str] = []
    fields = dict(DEFAULTS)
    for key, value in body.items():
        if key in _OWNERS:
            attached += _owners(f"{place}.{key}", key, value)
        elif key in _MAX_RATES:
            fields[key] = _rate(f"{place}.{key}", value, _MAX_RATES[key])
        elif key == "observes":
            _check_name(f"{place}.{key}", value)
            fields[key] = value
        elif key in _CHOICES:
            fields[key] = _choice(f"{place}.{key}", value, _CHOICES[key])
        else:
            known = ", ".join([*DEFAULTS, *_OWNERS])
            raise WrongUse(f"{place}.{key}: unknown; known are {known}")
    return Declared(fields, tuple(attached), tuple(kind for kind in _OWNERS if kind in body))


def _owners(place: str, kind: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise WrongUse(f"{place}: write a list")
    for owner in value:
        parts = owner.split("/") if isinstance(owner, str) else []
        if len(parts) != _OWNERS[kind]:
            shape = "names of tenants" if kind == "tenants" else "tenant/namespace"
            raise WrongUse(f"{place}: write {shape}, not {owner!r}")
        for part in parts:
            _check_name(place, part)
    return [f"{kind}/{owner}" for owner in value]


def _rate(place: str, value: Any, maximum: int) -> int:
    if type(value) is not int or not UNLIMITED <= value <= maximum:
        raise WrongUse(
            f"{place}: write a whole number from 0 to {maximum}, or -1 for not limited, not {value!r}"
        )
    return value


def _choice(place: str, value: Any, names: Sequence[str]) -> str:
    if value not in names:
        raise WrongUse(f"{place}: write one of {', '.join(names)}, not {value!r}")
    return str(value)


def _check_name(place: str, name: Any) -> None:
    try:
        validate_name(name if isinstance(name, str) else "")
    except ValueError as error:
        raise WrongUse(f"{place}: {error}") from error

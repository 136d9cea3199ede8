"""Groups as a file: read by ``groups apply`` and written by ``groups export``.

::

    groups:
      orders:
        publishRateInMsgs: 3000
        law: max-min
        allowedTenants: [shop, bank]
        tenants: [shop]
        namespaces: [bank/orders]
        roles: [batch, "team-*"]
        defaultRole: true
        subscriptions: [persistent/shop/main/orders/audit]
        remoteClusters: [west]

The file states everything about the groups that it names: a rate that is absent is not limited, a setting
that is absent has its default. Attachments of a kind, such as ``tenants``, stay as they are where the
kind is absent; where it is present, owners that it does not list are detached. Groups that are not named
stay as they are.

A file is checked as a whole before anything is changed. JSON is YAML, so both are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from coordinator.cli.failures import WrongUse
from coordinator.cli.fields import DIMENSION_NAMES, FieldValue
from coordinator.cli.owners import (
    DEFAULT_ROLE,
    cluster_named,
    name_at,
    role_named,
    subscription_named,
)
from coordinator.core.allocation.laws import LAWS
from coordinator.core.allocation.splitting import WEIGHTS
from coordinator.core.answer import UNLIMITED, Number, written
from coordinator.core.demand.observing import ENFORCEMENTS
from coordinator.core.handling import MAX_BURST_SECONDS, MAX_HOLD_MILLIS, ON_LIMIT
from coordinator.core.model import Dimension, Rate, Rates, ResourceGroup, Unit
from coordinator.core.owners import validate_tenants
from coordinator.core.rates import number_of, rate_of
from coordinator.core.transfer.policies import PARTITION_POLICIES, POLICIES
from coordinator.core.transfer.tree_rules import GUARANTEE_FIELDS, MAX_WEIGHT
from coordinator.insight.model.definitions import Definition, DefinitionState

_MAX_RATES = dict(zip(DIMENSION_NAMES, (2**31 - 1, 2**63 - 1) * 2, strict=True))
_AMOUNTS = {
    "weight": (1, MAX_WEIGHT),
    "holdMillis": (0, MAX_HOLD_MILLIS),
    "burstSeconds": (0, MAX_BURST_SECONDS),
} | {field: (0, _MAX_RATES[dimension.value]) for dimension, field in GUARANTEE_FIELDS.items()}
_CHOICES = {
    "law": tuple(LAWS),
    "weights": tuple(WEIGHTS),
    "overshootPolicy": tuple(POLICIES),
    "partitionPolicy": tuple(PARTITION_POLICIES),
    "enforcement": ENFORCEMENTS,
    "onLimit": ON_LIMIT,
}
DEFAULTS: dict[str, FieldValue] = written(DefinitionState.of(ResourceGroup("", Rates())))
"""The fields of a group that limits nothing, and says nothing else."""

_OWNERS = {"tenants": 1, "namespaces": 2}
_LISTED = {
    "roles": role_named,
    "subscriptions": subscription_named,
    "remoteClusters": cluster_named,
}
_EXAMPLES = {
    "roles": '[batch, "team-*"]',
    "subscriptions": "[persistent/shop/main/orders/audit]",
    "remoteClusters": "[west]",
}
_FURTHER = (*_LISTED, "defaultRole")
_KINDS = {kind: kind for kind in (*_OWNERS, "roles", "subscriptions")} | {
    "defaultRole": DEFAULT_ROLE,
    "remoteClusters": "clusters",
}

_NO_YAML = (yaml.YAMLError, ValueError, AttributeError, LookupError, TypeError, RecursionError)
"""PyYAML lets its own errors pass of a date like 2026-02-30 (ValueError), or of ``!!bool maybe``."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared state of one group.

    Args:
        fields: rates and settings by their names on the wire; a field that is missing stays as it is.
        attached: the owners that belong to it, as `coordinator.cli.owners` names them.
        exact: the kinds of owners of which no others may belong to it.
    """

    fields: Mapping[str, FieldValue]
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
    except _NO_YAML as error:
        raise WrongUse(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or list(document) != ["groups"]:
        raise WrongUse(f"{path}: write one key, groups, and the groups by name below it")
    groups = document["groups"]
    if not isinstance(groups, dict):
        raise WrongUse(f"{path}: groups: write the groups by name")
    declared = {
        name: _declared(f"{path}: groups.{name}", name, body) for name, body in groups.items()
    }
    _refuse_shared(path, declared)
    return declared


def _refuse_shared(path: Path, declared: Mapping[str, Declared]) -> None:
    """Refuse an owner in two groups: it can belong to one of them only."""
    group_of: dict[str, str] = {}
    for name, each in declared.items():
        for owner in each.attached:
            if (other := group_of.setdefault(owner, name)) != name:
                raise WrongUse(
                    f"{path}: groups.{name}: {owner} stands in groups.{other}, too; name it in one"
                )


def write(definitions: Sequence[Definition]) -> dict[str, Any]:
    """Return definitions as a file's content; default values are left out."""
    groups: dict[str, Any] = {}
    for found in definitions:
        fields, attachments = written(found), written(found.attachments)
        groups[found.name] = (
            {name: fields[name] for name in DEFAULTS if fields[name] != DEFAULTS[name]}
            | {kind: attachments[kind] for kind in _OWNERS}
            | {kind: attachments[kind] for kind in _FURTHER if attachments[kind]}
        )
    return {"groups": groups}


def _declared(place: str, name: Any, body: Any) -> Declared:
    name_at(place, name)
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise WrongUse(f"{place}: write fields such as publishRateInMsgs: 3000")
    attached: list[str] = []
    fields = dict(DEFAULTS)
    for key, value in body.items():
        if key in _OWNERS:
            attached += _owners(f"{place}.{key}", key, value)
        elif key in _FURTHER:
            attached += _further(f"{place}.{key}", key, value)
        elif key in DEFAULTS:
            fields[key] = _field(f"{place}.{key}", key, value)
        else:
            known = ", ".join([*DEFAULTS, *_OWNERS, *_FURTHER])
            raise WrongUse(f"{place}.{key}: unknown; known are {known}")
    exact = tuple(_KINDS[key] for key in (*_OWNERS, *_FURTHER) if key in body)
    return Declared(fields, tuple(attached), exact)


def _field(place: str, key: str, value: Any) -> FieldValue:
    if key in _MAX_RATES:
        return _limit(place, key, value)
    if key in _AMOUNTS:
        return _amount(place, value, *_AMOUNTS[key])
    if key in _CHOICES:
        return _choice(place, value, _CHOICES[key])
    if key == "allowedTenants":
        return _tenants(place, value)
    return name_at(place, value)


def _further(place: str, key: str, value: Any) -> list[str]:
    if key == "defaultRole":
        if not isinstance(value, bool):
            raise WrongUse(f"{place}: write true or false, not {value!r}")
        return [DEFAULT_ROLE] if value else []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise WrongUse(f"{place}: write a list of {key}, such as {_EXAMPLES[key]}")
    return [_LISTED[key](place, each) for each in value]


def _owners(place: str, kind: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise WrongUse(f"{place}: write a list")
    for owner in value:
        parts = owner.split("/") if isinstance(owner, str) else []
        if len(parts) != _OWNERS[kind]:
            shape = "names of tenants" if kind == "tenants" else "tenant/namespace"
            raise WrongUse(f"{place}: write {shape}, not {owner!r}")
        for part in parts:
            name_at(place, part)
    return [f"{kind}/{owner}" for owner in value]


def _limit(place: str, key: str, value: Any) -> Number:
    maximum, whole = _MAX_RATES[key], Dimension(key).unit is Unit.BYTES
    rate = rate_of(value)
    if rate is None or (whole and not isinstance(rate, int)) or not _is_limit(rate, maximum):
        form = "whole number" if whole else "number"
        decimals = "" if whole else " with at most three decimals"
        raise WrongUse(
            f"{place}: write a {form} from 0 to {maximum}{decimals}, or -1 for not limited, not {value!r}"
        )
    return number_of(rate)


def _is_limit(rate: Rate, maximum: int) -> bool:
    return rate == UNLIMITED or 0 <= rate <= maximum


def _amount(place: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise WrongUse(f"{place}: write a whole number from {least} to {most}, not {value!r}")
    return value


def _choice(place: str, value: Any, names: Sequence[str]) -> str:
    if value not in names:
        raise WrongUse(f"{place}: write one of {', '.join(names)}, not {value!r}")
    return str(value)


def _tenants(place: str, value: Any) -> list[str]:
    try:
        return list(validate_tenants(value))
    except ValueError as error:
        raise WrongUse(f"{place}: {error}") from error

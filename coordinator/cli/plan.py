"""The steps from the present state of groups to the declared one, shown before they are taken.

Groups come before attachments, and attaching before detaching, so that every owner is limited at all
times. Each change of a definition names the version that the difference was made from: if another change
came first, the step is refused and does not undo it. A plan that breaks off in the middle can be made
again. Parents come before their children, and who gives up a part of its guarantees comes first, so
that no step on the way promises more than a parent has. What comes out is checked before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from coordinator.cli.client import AdminClient
from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.fields import FieldValue
from coordinator.cli.manifest import DEFAULTS, Declared
from coordinator.cli.owners import attached
from coordinator.core.allocation.splitting import fault_of_fractions
from coordinator.core.allocation.tree import MAX_DEPTH
from coordinator.core.answer import read, written
from coordinator.core.model import Attachments
from coordinator.core.owners import DEFAULT_ROLE
from coordinator.core.transfer.tree_rules import GUARANTEE_FIELDS, TreeFault, check_tree
from coordinator.insight.model.definitions import Definition, DefinitionState

Fields = Mapping[str, FieldValue]


@dataclass(frozen=True, slots=True)
class Step:
    """One change: its words, and the call that makes it."""

    text: str
    take: Callable[[AdminClient], None]


def make_plan(client: AdminClient, declared: Mapping[str, Declared]) -> list[Step]:
    """Return the steps to the declared state; none if it is reached already."""
    present = {found.name: found for found in client.definitions()}
    _check(present, declared)
    owners = {
        owner: name for name, found in present.items() for owner in attached(found.attachments)
    }
    steps = [
        step
        for name in _in_order(present, declared)
        for step in _definition_steps(client, name, declared[name].fields, exists=name in present)
    ]
    wanted_groups = {owner: name for name, d in declared.items() for owner in d.attached}
    for owner, name in wanted_groups.items():
        before = owners.get(owner)
        if before != name:
            moved = f"from {before} to" if before else "to"
            steps.append(Step(f"~ attach {owner} {moved} {name}", partial(_attach, owner, name)))
    for owner, name in owners.items():
        kind = owner.partition("/")[0]
        if name in declared and kind in declared[name].exact and owner not in wanted_groups:
            steps.append(Step(f"- detach {owner} from {name}", partial(_detach, owner)))
    return steps


def _in_order(present: Mapping[str, Definition], declared: Mapping[str, Declared]) -> list[str]:
    """Return the names in the order in which the definitions are written."""

    def depth(name: str) -> int:
        way = [name]
        while len(way) <= MAX_DEPTH and way[-1] in declared:
            if not (parent := str(declared[way[-1]].fields.get("parent", ""))):
                break
            way.append(parent)
        return len(way)

    def gives_up(name: str) -> bool:
        now: Mapping[str, Any] = written(present[name]) if name in present else {}
        wanted: Mapping[str, Any] = declared[name].fields
        return any(
            wanted.get(field, now.get(field, 0)) < now.get(field, 0)
            for field in GUARANTEE_FIELDS.values()
        )

    return sorted(declared, key=lambda name: (not gives_up(name), depth(name)))


def _check(present: Mapping[str, Definition], declared: Mapping[str, Declared]) -> None:
    """Refuse definitions that make no trees or cannot be shared, before anything is written."""
    fields: dict[str, Mapping[str, Any]] = {name: written(now) for name, now in present.items()}
    for name, wanted in declared.items():
        fields[name] = {**DEFAULTS, **fields.get(name, {}), **wanted.fields}
    groups = {name: read(DefinitionState, each).group(name) for name, each in fields.items()}
    attachments = _attachments(present)
    for name in declared:
        try:
            check_tree(groups[name], groups, attachments)
        except TreeFault as error:
            raise WrongUse(f"groups.{name}.{error}") from error
        if fault := fault_of_fractions(groups[name]):
            raise WrongUse(f"groups.{name}.{fault}")


def _attachments(present: Mapping[str, Definition]) -> Attachments:
    """Return what is attached now."""

    def owners(kind: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, each in present.items():
            found |= dict.fromkeys(getattr(each.attachments, kind), name)
        return found

    default = next((n for n, each in present.items() if each.attachments.default_role), None)
    return Attachments(
        owners("tenants"),
        owners("namespaces"),
        roles=owners("roles") | ({} if default is None else {DEFAULT_ROLE: default}),
        subscriptions=owners("subscriptions"),
        clusters=owners("remote_clusters"),
    )


def carry_out(client: AdminClient, steps: Sequence[Step]) -> None:
    """Take the steps in order.

    Raises:
        CommandFailed: one failed; the message says how many were taken.
    """
    for done, step in enumerate(steps):
        try:
            step.take(client)
        except CommandFailed as failure:
            raise CommandFailed(
                f"{step.text.lstrip('+-~ ')}: {failure} ({done} of {len(steps)} changes were made; "
                "run it again when this is mended)"
            ) from failure


def _definition_steps(
    client: AdminClient, name: str, fields: Fields, *, exists: bool
) -> list[Step]:
    if not exists:
        given = [f"{key} {value}" for key, value in fields.items() if value != DEFAULTS[key]]
        text = f"+ create {name}: {', '.join(given) or 'nothing limited'}"
        return [Step(text, partial(_put, name, fields, {"If-None-Match": "*"}))]
    found, tag = client.tagged_definition(name)
    now: Mapping[str, object] = written(found)
    changes = {key: value for key, value in fields.items() if now[key] != value}
    if not changes:
        return []
    stated = ", ".join(f"{key} {now[key]} -> {value}" for key, value in changes.items())
    return [Step(f"~ change {name}: {stated}", partial(_put, name, changes, {"If-Match": tag}))]


def _put(name: str, fields: Fields, condition: Mapping[str, str], client: AdminClient) -> None:
    client.put_group(name, fields, condition)


def _attach(owner: str, group: str, client: AdminClient) -> None:
    client.attach(owner, group)


def _detach(owner: str, client: AdminClient) -> None:
    client.detach(owner)

"""The steps from the present state of groups to the declared one, shown before they are taken.

Groups come before attachments, and attaching before detaching, so that every owner is limited at all
times. Each change of a definition names the version that the difference was made from: if another change
came first, the step is refused and does not undo it. A plan that breaks off in the middle can be made
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from coordinator.cli.answers import DefinitionAnswer
from coordinator.cli.client import AdminClient
from coordinator.cli.failures import CommandFailed
from coordinator.cli.manifest import DEFAULTS, Declared

Fields = Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class Step:
    """One change: its words, and the call that makes it."""

    text: str
    take: Callable[[AdminClient], None]


def make_plan(client: AdminClient, declared: Mapping[str, Declared]) -> list[Step]:
    """Return the steps to the declared state; none if it is reached already."""
    present = {found["name"]: found for found in client.definitions()}
    owners = {owner: name for name, found in present.items() for owner in _attached(found)}
    steps = [
        step
        for name, wanted in declared.items()
        for step in _definition_steps(client, name, wanted.fields, exists=name in present)
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
    now: Mapping[str, object] = found
    changes = {key: value for key, value in fields.items() if now[key] != value}
    if not changes:
        return []
    stated = ", ".join(f"{key} {now[key]} -> {value}" for key, value in changes.items())
    return [Step(f"~ change {name}: {stated}", partial(_put, name, changes, {"If-Match": tag}))]


def _attached(found: DefinitionAnswer) -> list[str]:
    attachments = found["attachments"]
    return [
        *(f"tenants/{tenant}" for tenant in attachments["tenants"]),
        *(f"namespaces/{namespace}" for namespace in attachments["namespaces"]),
    ]


def _put(name: str, fields: Fields, condition: Mapping[str, str], client: AdminClient) -> None:
    client.put_group(name, fields, condition)


def _attach(owner: str, group: str, client: AdminClient) -> None:
    client.attach(owner, group)


def _detach(owner: str, client: AdminClient) -> None:
    client.detach(owner)

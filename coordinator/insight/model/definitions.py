"""The answers about definitions: a group as it is, and before and after a change.

A setting has the same name here and in the core, so it is copied by that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, Self

from coordinator.core.answer import answer
from coordinator.core.model import Attachments, Dimension, ExactRates, Rates, ResourceGroup
from coordinator.core.owners import DEFAULT_ROLE
from coordinator.insight.model.rates import RatesView
from coordinator.ports import AuditEntry

GUARANTEES: Final[Mapping[Dimension, str]] = {
    Dimension.PUBLISH_MESSAGES: "publish_guarantee_in_msgs",
    Dimension.PUBLISH_BYTES: "publish_guarantee_in_bytes",
    Dimension.DISPATCH_MESSAGES: "dispatch_guarantee_in_msgs",
    Dimension.DISPATCH_BYTES: "dispatch_guarantee_in_bytes",
}
"""The fields of guarantees, in answers and in bodies."""

_SETTINGS = frozenset(field.name for field in fields(ResourceGroup))


@answer
class DefinitionState(RatesView):
    """A definition of a group as it was: rates per second, -1 = not limited."""

    law: str
    weights: str
    overshoot_policy: str
    partition_policy: str
    enforcement: str
    observes: str
    """the group whose traffic counts; empty = its own"""
    parent: str
    """the group whose limit it shares with its siblings; empty = none"""
    on_limit: str
    """publishes above the limit: hold, or refuse"""
    hold_millis: int
    """with refuse: how long a publish is held first"""
    burst_seconds: int
    """s of the limit that it may save up; 0 = by default"""
    weight: int
    """how many times it counts in what guarantees leave"""
    allowed_tenants: tuple[str, ...]
    """tenants whose admins may attach to it; a super-user always may"""
    publish_guarantee_in_msgs: int
    """of the parent's limit, before its siblings get more; 0 = nothing"""
    publish_guarantee_in_bytes: int
    dispatch_guarantee_in_msgs: int
    dispatch_guarantee_in_bytes: int

    @classmethod
    def of(cls, group: ResourceGroup, **further: Any) -> Self:
        """Write a definition, with the further fields of a subclass."""
        return cls.limits(
            group.exact_limits,
            **{name: group.guarantees.of(each) or 0 for each, name in GUARANTEES.items()},
            **{name: getattr(group, name) for name in _settings_of(cls)},
            **further,
        )

    def group(self, name: str) -> ResourceGroup:
        """Return the definition, under this name, as the code has it."""
        limits = ExactRates.from_mapping({each: self.rates.of(each) for each in Dimension})
        return ResourceGroup(
            name,
            limits.whole,
            fractions=limits.fractions,
            guarantees=Rates(*(getattr(self, name) or None for name in GUARANTEES.values())),
            **{name: getattr(self, name) for name in _settings_of(DefinitionState)},
        )


@answer
class AttachmentsView:
    """The owners that belong to a group; namespaces as ``tenant/namespace``."""

    tenants: tuple[str, ...]
    namespaces: tuple[str, ...]
    roles: tuple[str, ...]
    """roles, and patterns of roles such as team-*"""
    default_role: bool
    """whether roles without an attachment belong to it"""
    subscriptions: tuple[str, ...]
    """single subscriptions, as persistent/tenant/namespace/topic/name"""
    remote_clusters: tuple[str, ...]
    """clusters whose replication the group limits"""

    @classmethod
    def by_group(cls, attachments: Attachments, groups: Iterable[str]) -> dict[str, Self]:
        """Return the attachments of each of these groups, in one pass over all attachments."""
        wanted = list(groups)
        named = {role: name for role, name in attachments.roles.items() if role != DEFAULT_ROLE}
        columns = {
            "tenants": _by_group(attachments.tenants, wanted),
            "namespaces": _by_group(attachments.namespaces, wanted),
            "roles": _by_group(named, wanted),
            "subscriptions": _by_group(attachments.subscriptions, wanted),
            "remote_clusters": _by_group(attachments.clusters, wanted),
        }
        default = attachments.roles.get(DEFAULT_ROLE)
        return {
            group: cls(
                default_role=group == default,
                **{kind: tuple(column[group]) for kind, column in columns.items()},
            )
            for group in wanted
        }


def _by_group(owners: Mapping[str, str], groups: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {group: [] for group in groups}
    for owner in sorted(owners):
        if (listed := found.get(owners[owner])) is not None:
            listed.append(owner)
    return found


@answer
class Definition(DefinitionState):
    """A group in full. ``configurationVersion`` grows with every change; reports name it."""

    name: str
    configuration_version: int
    attachments: AttachmentsView
    children: tuple[str, ...]
    """the groups whose parent it is"""


@answer
class AuditView:
    """One change of a definition, an attachment or a topic's limits."""

    id: int
    at_millis: int
    """since 1970, by ZooKeeper's clock"""
    actor: str
    """the token's role, or anonymous"""
    address: str
    """the host that it came from"""
    undoes: int | None
    """the entry that it rolls back"""
    subject: str
    """groups/G, tenants/T, namespaces/T/N or topics/DOMAIN://T/N/TOPIC"""
    before: DefinitionState | RatesView | str | None
    """a definition, a topic's limits, or the name of the group that was attached to; null = nothing"""
    after: DefinitionState | RatesView | str | None

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        """Write one entry."""
        return cls(
            id=entry.id,
            at_millis=entry.at_ms,
            actor=entry.origin.actor,
            address=entry.origin.address,
            undoes=entry.origin.undoes,
            subject=entry.subject,
            before=_state(entry.before),
            after=_state(entry.after),
        )


def _state(state: ResourceGroup | Rates | str | None) -> DefinitionState | RatesView | str | None:
    if isinstance(state, ResourceGroup):
        return DefinitionState.of(state)
    return RatesView.limits(state) if isinstance(state, Rates) else state


def _settings_of(view: type[RatesView]) -> list[str]:
    """Return the fields of an answer that a definition in the core has, too."""
    return [field.name for field in fields(view) if field.name in _SETTINGS]

"""The API's answers that are no views, as far as the commands read them; units and -1 as on the wire."""

from __future__ import annotations

from typing import TypedDict

from coordinator.insight.model.answer import Number

#: Readable names of the four dimensions, by Pulsar's field names.
DIMENSION_NAMES = {
    "publishRateInMsgs": "publish messages",
    "publishRateInBytes": "publish bytes",
    "dispatchRateInMsgs": "dispatch messages",
    "dispatchRateInBytes": "dispatch bytes",
}


FieldValue = Number | str | list[str]
"""The value of a field of a definition."""


class AttachmentsAnswer(TypedDict):
    """The owners that belong to a group."""

    tenants: list[str]
    namespaces: list[str]
    roles: list[str]
    defaultRole: bool
    subscriptions: list[str]
    remoteClusters: list[str]


class DefinitionAnswer(TypedDict):
    """The full definition of a group."""

    name: str
    publishRateInMsgs: Number
    publishRateInBytes: Number
    dispatchRateInMsgs: Number
    dispatchRateInBytes: Number
    law: str
    weights: str
    overshootPolicy: str
    partitionPolicy: str
    enforcement: str
    observes: str
    parent: str
    weight: int
    onLimit: str
    holdMillis: int
    burstSeconds: int
    publishGuaranteeInMsgs: int
    publishGuaranteeInBytes: int
    dispatchGuaranteeInMsgs: int
    dispatchGuaranteeInBytes: int
    allowedTenants: list[str]
    configurationVersion: int
    attachments: AttachmentsAnswer


class AuditEntryAnswer(TypedDict):
    """One change: ``before`` and ``after`` are a definition's fields, a group's name, or None."""

    id: int
    atMillis: int
    actor: str
    address: str
    undoes: int | None
    subject: str
    before: dict[str, Number | str] | str | None
    after: dict[str, Number | str] | str | None


class NativeConditionAnswer(TypedDict):
    """A condition that keeps native enforcement from being exact."""

    code: str
    text: str
    fix: str


class Native(TypedDict):
    """The state of the broker's own limiter under native enforcement, as far as commands show it."""

    path: str
    serviceUrl: str
    intervalSeconds: int
    connected: bool
    groups: list[dict[str, object]]
    limitedTopics: int
    conditions: list[NativeConditionAnswer]

"""The admin API's answers, as far as the commands read them; units and -1 as on the wire."""

from __future__ import annotations

from typing import TypedDict

UNLIMITED = -1

#: Readable names of the four dimensions, by Pulsar's field names.
DIMENSION_NAMES = {
    "publishRateInMsgs": "publish messages",
    "publishRateInBytes": "publish bytes",
    "dispatchRateInMsgs": "dispatch messages",
    "dispatchRateInBytes": "dispatch bytes",
}

#: Four rates per second by dimension.
Rates = dict[str, int]


class Attachments(TypedDict):
    """The owners that belong to a group."""

    tenants: list[str]
    namespaces: list[str]


class Definition(TypedDict):
    """The full definition of a group."""

    name: str
    publishRateInMsgs: int
    publishRateInBytes: int
    dispatchRateInMsgs: int
    dispatchRateInBytes: int
    law: str
    weights: str
    overshootPolicy: str
    partitionPolicy: str
    enforcement: str
    observes: str
    configurationVersion: int
    attachments: Attachments


class Operation(TypedDict):
    """A change under way or ended; ``moved`` is by dimension and broker."""

    id: int
    ageMillis: int
    group: str
    subject: str
    text: str
    actor: str
    taker: str
    state: str
    settleMillis: int | None
    residual: float | None
    moved: dict[str, dict[str, int]]


class AuditEntry(TypedDict):
    """One change: ``before`` and ``after`` are a definition's fields, a group's name, or None."""

    id: int
    atMillis: int
    actor: str
    address: str
    undoes: int | None
    subject: str
    before: dict[str, int | str] | str | None
    after: dict[str, int | str] | str | None


class BrokerUsage(TypedDict):
    """The rates that one broker admits of a group, and its limits."""

    broker: str
    admitted: Rates
    limits: Rates
    throttledShare: dict[str, float]
    participants: int
    topics: int
    reportAgeMillis: int


class GroupUsage(TypedDict):
    """A group with a row for each participating broker."""

    group: str
    limits: Rates
    brokers: list[BrokerUsage]


class Member(TypedDict):
    """One live sidecar."""

    broker: str
    incarnation: int
    apiAddress: str
    reportAgeMillis: int | None


class Trouble(TypedDict):
    """One reason why a sidecar is degraded."""

    name: str
    reason: str


class Disagreement(TypedDict):
    """A view of another sidecar that differs from the answering one's."""

    peer: str
    matter: str
    ageMillis: int


class Suspect(TypedDict):
    """A sidecar whose reports cannot be true."""

    broker: str
    reason: str
    group: str
    count: int
    ageMillis: int
    detail: str


class FailedTask(TypedDict):
    """A part of the sidecar that has failed, while the sidecar goes on."""

    task: str
    failures: int
    reason: str
    runs: bool


class Recording(TypedDict):
    """The state of recording."""

    recording: bool
    reason: str
    failures: int
    rowsWritten: int
    rowsWaiting: int
    rowsDropped: int


class Health(TypedDict):
    """The state of the answering sidecar."""

    broker: str
    incarnation: int
    state: str
    ready: bool
    troubles: list[Trouble]
    round: int
    members: list[Member]
    reportsDropped: dict[str, int]
    disagreements: list[Disagreement]
    suspects: list[Suspect]
    failedTasks: list[FailedTask]
    recording: Recording | None
    enforcementPath: str


class Holder(TypedDict):
    """The most that one broker's local limit can be."""

    broker: str
    most: int
    basis: str


class Certificate(TypedDict):
    """The most that the local limits of one dimension can add up to now; None is "unknown"."""

    dimension: str
    limit: int
    most: int | None
    newcomer: int
    burst: int
    holders: list[Holder]
    sentence: str
    slack: str


class GroupCertificates(TypedDict):
    """A group with a certificate for each dimension that it limits."""

    group: str
    certificates: list[Certificate]


class Want(TypedDict):
    """One broker's demand: at most (None: more than can be known) and at least."""

    broker: str
    wants: int | None
    wantsAtLeast: int
    weight: int
    admitted: int
    limit: int
    throttledShare: float
    reportAgeMillis: int


class ShadowOfBroker(TypedDict):
    """One broker's entitlement under both laws."""

    broker: str
    now: int
    then: int


class Shadow(TypedDict):
    """The result of a candidate law on the facts of this moment."""

    group: str
    dimension: str
    law: str
    candidate: str
    limit: int
    moved: int
    brokers: list[ShadowOfBroker]
    sentence: str


class Explanation(TypedDict):
    """The reasons for a local limit."""

    group: str
    dimension: str
    broker: str
    clusterLimit: int
    localLimit: int
    target: int
    binding: str
    waterLevel: int | None
    binds: str | None
    decidedAgeMillis: int
    round: int
    wants: list[Want]
    sentence: str
    wouldChange: list[str]
    delayed: list[str]
    slack: str
    roundTheGate: list[str]
    shadow: Shadow | None


class PastDecision(TypedDict):
    """A past decision on the answering sidecar's own limit, in short."""

    number: int
    ageMillis: int
    clusterLimit: int
    localLimit: int
    target: int
    binding: str
    participants: int
    round: int
    sentence: str


class Alarm(TypedDict):
    """A condition that an operator should know of."""

    alarm: str
    subject: str
    severity: str
    state: str
    ageMillis: int
    text: str
    action: str


class NativeCondition(TypedDict):
    """A condition that keeps native enforcement from being exact."""

    code: str
    text: str
    fix: str


class Escape(TypedDict):
    """A namespace in which traffic went round the gate."""

    namespace: str
    escaping: bool
    messagesPerSecond: float
    messages: int
    sentence: str
    fix: str


class Reconciled(TypedDict):
    """Escaped traffic: the broker's counts less the gate's."""

    on: bool
    intervalSeconds: float
    error: str
    namespaces: int
    leftOut: int
    charges: bool
    escapes: list[Escape]


class Native(TypedDict):
    """The state of the broker's own limiter under native enforcement, as far as commands show it."""

    path: str
    serviceUrl: str
    intervalSeconds: int
    connected: bool
    groups: list[dict[str, object]]
    conditions: list[NativeCondition]

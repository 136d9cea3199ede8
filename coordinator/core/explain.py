"""Answers to "why is this limit what it is", and the views that the API shows.

Everything here reads the state and changes nothing. An explanation is made from the decision that is in
force, not from a new one, so it tells why the limit *is*, not what it would be now.
"""

from __future__ import annotations

from coordinator.core.allocation import Binding, Split, split
from coordinator.core.decisions import Decision
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import DIMENSIONS_OF, Dimension, MonitoringClass, Rates, Unit
from coordinator.core.state import CoordinatorState
from coordinator.core.views import (
    BrokerUsageView,
    DisagreementView,
    Explanation,
    GroupView,
    HealthView,
    MemberView,
    WantView,
)


class UnknownGroup(LookupError):
    """There is no such group."""


class UnknownBroker(LookupError):
    """No such broker is a member."""


def health(state: CoordinatorState, now_ns: int) -> HealthView:
    """How this sidecar is; ready means that it limits by what it knows of all the others."""
    return HealthView(
        broker=state.settings.broker,
        incarnation=state.incarnation or 0,
        state=state.lifecycle,
        troubles=state.troubles.all(),
        ready=state.lifecycle is Lifecycle.ACTIVE,
        members=tuple(
            MemberView(
                member.broker,
                member.incarnation,
                member.api_address,
                _report_age_ns(state, member.broker, now_ns),
            )
            for member in sorted(state.members.values())
        ),
        round=state.round,
        reports_dropped={verdict.value: count for verdict, count in state.reports_dropped.items()},
        disagreements=_disagreements(state, now_ns),
    )


def _disagreements(state: CoordinatorState, now_ns: int) -> tuple[DisagreementView, ...]:
    rounds_ns = {broker: state.usage.round_ns(broker) for broker in state.members}
    return tuple(
        DisagreementView(found.peer, found.matter, now_ns - found.since_ns)
        for found in state.agreement.disagreements(rounds_ns, now_ns)
    )


def group_view(state: CoordinatorState, name: str, now_ns: int) -> GroupView:
    """One group with a row for every member.

    Raises:
        UnknownGroup: there is no such group.
    """
    group = (state.groups or {}).get(name)
    if group is None:
        raise UnknownGroup(name)
    return GroupView(
        group=name,
        limits=group.limits,
        law=group.law,
        overshoot_policy=group.overshoot_policy,
        configuration_version=group.configuration_version,
        brokers=tuple(_broker_row(state, name, broker, now_ns) for broker in sorted(state.members)),
    )


def explain(
    state: CoordinatorState, name: str, dimension: Dimension, broker: str | None, now_ns: int
) -> Explanation:
    """Why a broker's local limit of a group and dimension is what it is.

    Args:
        state: the state to read.
        name: the group.
        dimension: the dimension.
        broker: whose limit; None is this sidecar's own. Another one's is explained as seen from here.
        now_ns: the time.

    Raises:
        UnknownGroup: there is no such group.
        UnknownBroker: the broker is not a member.
    """
    group = (state.groups or {}).get(name)
    decision = state.decider.decisions.get((name, dimension))
    if group is None or decision is None:
        raise UnknownGroup(name)
    own = state.settings.broker
    subject = broker or own
    if subject != own and subject not in state.members:
        raise UnknownBroker(subject)
    limit = group.limits.of(dimension)
    answer = decision.split
    if answer is None and limit is not None:
        answer = split(group, dimension, state.members, state.usage, state.settings)
    local, binding = _limit_of(decision, answer, subject, own)
    return Explanation(
        group=name,
        dimension=dimension,
        broker=subject,
        cluster_limit=limit,
        local_limit=local,
        target=answer.target_of(subject) if answer is not None else None,
        binding=binding.value,
        water_level=answer.water_level if answer is not None else None,
        decided_age_ns=now_ns - decision.decided_ns,
        round=decision.round,
        wants=_wants(state, name, dimension, answer, now_ns),
        sentence=_sentence(state, name, dimension, answer, subject, local, binding),
    )


def _limit_of(
    decision: Decision, answer: Split | None, subject: str, own: str
) -> tuple[int | None, Binding]:
    if subject == own or answer is None:
        return decision.local_limit, decision.binding
    local = answer.in_force_at(subject)
    return local, answer.binding_of(subject, local)


def _wants(
    state: CoordinatorState, name: str, dimension: Dimension, answer: Split | None, now_ns: int
) -> tuple[WantView, ...]:
    if answer is None:
        return ()
    rows = []
    for broker, claim in sorted(answer.claims.items()):
        row = state.usage.row(broker, name, dimension.monitoring_class)
        rows.append(
            WantView(
                broker=broker,
                wants=claim.wants,
                weight=claim.weight,
                admitted=row.rate_of(dimension) if row is not None else 0,
                limit=_limit_in_force(state, name, broker, dimension),
                throttled_permille=(
                    row.usage.throttled_permille_of(dimension.unit) if row is not None else 0
                ),
                report_age_ns=_report_age_ns(state, broker, now_ns) or 0,
            )
        )
    return tuple(rows)


def _broker_row(state: CoordinatorState, name: str, broker: str, now_ns: int) -> BrokerUsageView:
    admitted: dict[Dimension, int | None] = {}
    throttled: dict[Dimension, int] = {}
    participants = topics = 0
    for monitoring_class, dimensions in DIMENSIONS_OF.items():
        row = state.usage.row(broker, name, monitoring_class)
        for dimension in dimensions:
            admitted[dimension] = row.rate_of(dimension) if row is not None else 0
            throttled[dimension] = (
                row.usage.throttled_permille_of(dimension.unit) if row is not None else 0
            )
        if row is not None:
            participants += row.usage.participants
            topics = max(topics, row.usage.topics)
    return BrokerUsageView(
        broker=broker,
        admitted=Rates.from_mapping(admitted),
        limits=Rates.from_mapping(
            {dimension: _limit_in_force(state, name, broker, dimension) for dimension in Dimension}
        ),
        throttled_permille=throttled,
        participants=participants,
        topics=topics,
        report_age_ns=_report_age_ns(state, broker, now_ns) or 0,
    )


def _limit_in_force(
    state: CoordinatorState, name: str, broker: str, dimension: Dimension
) -> int | None:
    if broker == state.settings.broker:
        return state.limits().get(name, Rates()).of(dimension)
    row = state.usage.row(broker, name, dimension.monitoring_class)
    if row is not None:
        return row.usage.limit_of(dimension.unit)
    decision = state.decider.decisions.get((name, dimension))
    if decision is None or decision.split is None:
        return None
    return decision.split.in_force_at(broker)


def _report_age_ns(state: CoordinatorState, broker: str, now_ns: int) -> int | None:
    if broker == state.settings.broker:
        return 0
    heard_ns = state.usage.heard_ns(broker)
    return None if heard_ns is None else now_ns - heard_ns


def _sentence(
    state: CoordinatorState,
    name: str,
    dimension: Dimension,
    answer: Split | None,
    subject: str,
    local: int | None,
    binding: Binding,
) -> str:
    if answer is None or local is None:
        return f"{name} does not limit {dimension.value}: {subject} lets everything through."
    match binding:
        case Binding.LEVEL:
            unit = "messages" if dimension.unit is Unit.MESSAGES else "bytes"
            sentence = (
                f"{_cut(answer)} more {unit} than there are, so each is cut at the same level"
                f"{_by_weight(answer, subject)}: {subject} gets {local:,}/s of the "
                f"{answer.limit:,}/s."
            )
        case Binding.DEMAND:
            sentence = (
                f"{subject} gets what it uses and a part of what nobody uses: {local:,}/s of the "
                f"{answer.limit:,}/s."
            )
        case Binding.RESERVE:
            sentence = _reserve_sentence(name, dimension, answer, subject, local)
        case Binding.GATE:
            held = answer.held()
            sentence = (
                f"{subject} is due {answer.target_of(subject):,}/s, but {held:,} of {answer.limit:,}/s "
                f"are still held: it stays at {local:,}/s until the others have lowered themselves."
            )
        case _:
            reasons = "; ".join(trouble.value for trouble in state.troubles.all())
            sentence = f"{subject} holds {local:,}/s: {reasons or 'it is not registered'}."
    return sentence


def _reserve_sentence(
    name: str, dimension: Dimension, answer: Split, subject: str, local: int
) -> str:
    if subject in answer.claims:
        return (
            f"{subject} has just started and does not know yet what the others use: it holds "
            f"its arrival reserve of {local:,}/s until every member has reported."
        )
    publish = dimension.monitoring_class is MonitoringClass.PUBLISH
    who = "producers" if publish else "consumers"
    return (
        f"{subject} has no {who} of {name}: it holds the arrival reserve of {local:,}/s, which "
        "serves the first one until the others have made room."
    )


def _by_weight(answer: Split, subject: str) -> str:
    """How a weighted level is counted; nothing when everybody counts once."""
    weights = {broker: claim.weight for broker, claim in answer.claims.items()}
    whole = sum(weights.values())
    if whole == len(weights):
        return ""
    return f" per active topic, of which {subject} has {weights[subject]:,} of {whole:,}"


def _cut(answer: Split) -> str:
    cut = [
        broker
        for broker, claim in answer.claims.items()
        if claim.wants is None or claim.wants > answer.targets[broker]
    ]
    return "One broker wants" if len(cut) == 1 else f"{len(cut)} brokers want"

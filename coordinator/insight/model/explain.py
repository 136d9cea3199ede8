"""Answers to "why is this limit what it is", and the views that the API shows.

Everything here reads the state and changes nothing. An explanation is made from the decision that is in
force, not from a new one, so it tells why the limit *is*, not what it would be now.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.allocation.laws import Claim
from coordinator.core.allocation.splitting import Binding, Split, reserve_of
from coordinator.core.certificate.statement import Certificate
from coordinator.core.decisions.decision import Decision
from coordinator.core.demand.observing import is_observed
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    DIMENSIONS_OF,
    NANOS_PER_SECOND,
    Dimension,
    Member,
    MonitoringClass,
    Rate,
    Rates,
    ResourceGroup,
    Unit,
    rates_of,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.usage.rows import UsageRow
from coordinator.insight.model.sentences import (
    capped_sentence,
    observed_sentence,
    sentence_of,
    units_sentence,
)
from coordinator.insight.model.trees import tree_sentence
from coordinator.insight.model.views import (
    BrokerUsageView,
    DisagreementView,
    ExcessView,
    Explanation,
    GroupView,
    HealthView,
    MemberView,
    WantView,
)

SILENT_NS: Final = 15 * NANOS_PER_SECOND
"""A member whose last report is older is silent. When the owner of a bus topic dies, there is a gap of
about 12 s."""

SILENT_ROUNDS: Final = 3
"""The same in rounds; the longer of both counts."""


class UnknownGroup(LookupError):
    """No group has this name."""


class UnknownBroker(LookupError):
    """No such broker is a member."""


def health(state: CoordinatorState, now_ns: int) -> HealthView:
    """Return this sidecar's health; ready means that its limits follow from the reports of all others."""
    return HealthView(
        broker=state.settings.broker,
        incarnation=state.incarnation or 0,
        state=state.lifecycle,
        degradations=state.degradations.all(),
        ready=state.lifecycle is Lifecycle.ACTIVE,
        members=tuple(_member(state, member, now_ns) for member in sorted(state.members.values())),
        round=state.round,
        reports_dropped={verdict.value: count for verdict, count in state.reports_dropped.items()},
        disagreements=_disagreements(state, now_ns),
        announcements_capped=dict(state.plausibility.times_capped),
    )


def _member(state: CoordinatorState, member: Member, now_ns: int) -> MemberView:
    age_ns = _report_age_ns(state, member.broker, now_ns)
    # Sidecars may have different intervals: its own is as long as its last report says.
    round_ns = max(state.settings.round_ns, state.usage.round_ns(member.broker))
    silent = age_ns is not None and age_ns > max(SILENT_NS, SILENT_ROUNDS * round_ns)
    return MemberView(member.broker, member.incarnation, member.api_address, age_ns, silent)


def _disagreements(state: CoordinatorState, now_ns: int) -> tuple[DisagreementView, ...]:
    rounds_ns = {broker: state.usage.round_ns(broker) for broker in state.members}
    return tuple(
        DisagreementView(found.peer, found.matter, now_ns - found.since_ns)
        for found in state.agreement.disagreements(rounds_ns, now_ns)
    )


def group_view(state: CoordinatorState, name: str, now_ns: int) -> GroupView:
    """Return one group with a row for every member.

    Raises:
        UnknownGroup: there is no such group.
    """
    group = (state.groups or {}).get(name)
    if group is None:
        raise UnknownGroup(name)
    return GroupView(
        group=name,
        limits=group.exact_limits,
        law=group.law,
        overshoot_policy=group.overshoot_policy,
        configuration_version=group.configuration_version,
        brokers=tuple(_broker_row(state, name, broker, now_ns) for broker in sorted(state.members)),
        enforcement=group.enforcement,
        would_hold=_would_hold(state, group),
    )


def _would_hold(state: CoordinatorState, group: ResourceGroup) -> dict[MonitoringClass, ExcessView]:
    if not is_observed(group):
        return {}
    found = {of: state.observer.excess((group.name, of)) for of in MonitoringClass}
    return {
        of: ExcessView(
            it.amounts[Unit.MESSAGES], it.amounts[Unit.BYTES], it.time_ns / NANOS_PER_SECOND
        )
        for of, it in found.items()
    }


def certificates(state: CoordinatorState, name: str, now_ns: int) -> tuple[Certificate, ...]:
    """Return the most that a group's local limits can add up to now, for each limited dimension.

    Raises:
        UnknownGroup: there is no such group.
    """
    group = (state.groups or {}).get(name)
    if group is None:
        raise UnknownGroup(name)
    return tuple(
        state.certificate(group, dimension, now_ns)
        for dimension in Dimension
        if group.limits.of(dimension) is not None
    )


def explain(
    state: CoordinatorState, name: str, dimension: Dimension, broker: str | None, now_ns: int
) -> Explanation:
    """Explain a broker's local limit of a group and dimension.

    Args:
        state: the state to read.
        name: the group.
        dimension: the dimension.
        broker: the broker to explain; None is this sidecar's own. Another one's limit is explained
            as seen from here.
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
    split = decision.split
    if split is None and limit is not None:
        split = state.decider.split_now(
            group, dimension, state.groups or {}, state.members, state.usage
        )
    local, binding = _limit_of(decision, split, subject, own)
    excess = state.observer.excess((name, dimension.monitoring_class))
    inner = state.decider.forest.is_inner(name) and limit is not None
    sentences = (
        observed_sentence(group, dimension, excess)
        if is_observed(group) and limit is not None
        else "",
        ""
        if inner
        else sentence_of(name, dimension, split, subject, local, binding, state.degradations.all()),
        tree_sentence(state, name, dimension),
        _units_sentence(state, name, dimension, split),
        capped_sentence(state.plausibility.capped.get((name, dimension), frozenset())),
    )
    return Explanation(
        group=name,
        dimension=dimension,
        broker=subject,
        cluster_limit=group.exact_limits.of(dimension),
        local_limit=local,
        target=split.exact_target_of(subject) if split is not None else None,
        binding=binding.value,
        water_level=split.water_level if split is not None else None,
        decided_age_ns=now_ns - decision.decided_ns,
        round=decision.round,
        wants=_wants(state, name, dimension, split, now_ns),
        binds=split.binds if split is not None else None,
        sentence=" ".join(filter(None, sentences)),
    )


def _limit_of(
    decision: Decision, split: Split | None, subject: str, own: str
) -> tuple[Rate | None, Binding]:
    if subject == own or split is None:
        return decision.exact_limit, decision.binding
    binding = split.binding_of(subject, split.in_force_at(subject))
    return split.exactly_in_force_at(subject), binding


def _units_sentence(
    state: CoordinatorState, name: str, dimension: Dimension, split: Split | None
) -> str:
    if split is None or split.binds is None:
        return ""
    both = DIMENSIONS_OF[dimension.monitoring_class]
    (slack,) = (one for one in both if one.unit is not split.binds)
    (other,) = (one for one in both if one is not dimension)
    decided = state.decider.decisions[name, other].split
    if decided is None:
        return ""
    rows = state.usage.rows(name, dimension.monitoring_class).values()
    return units_sentence(dimension, split, decided, sum(row.rate_of(slack) for row in rows))


def _wants(
    state: CoordinatorState, name: str, dimension: Dimension, split: Split | None, now_ns: int
) -> tuple[WantView, ...]:
    if split is None:
        return ()
    rows = []
    for broker, claim in sorted(split.claims.items()):
        row = state.usage.row(broker, name, dimension.monitoring_class)
        traffic = (0, 0) if row is None else reported(row, dimension)
        limit = _limit_in_force(state, name, broker, dimension)
        age_ns = _report_age_ns(state, broker, now_ns)
        rows.append(want_of(broker, claim, traffic, limit, state.settings, age_ns))
    return tuple(rows)


def reported(row: UsageRow, dimension: Dimension) -> tuple[int, int]:
    """Return what a broker reports: the rate per second, and the thousandths of the round waited."""
    return row.rate_of(dimension), row.usage.throttled_permille_of(dimension.unit)


def want_of(
    broker: str,
    claim: Claim,
    traffic: tuple[int, int],
    limit: Rate | None,
    settings: CoreSettings,
    report_age_ns: int | None = None,
) -> WantView:
    """Return a participant's demand, as far as it is known.

    Args:
        broker: the participant.
        claim: its claim in the split.
        traffic: what it had reported.
        limit: its local limit in force, per second; None is unlimited.
        settings: the core's.
        report_age_ns: since its report arrived; None if that is not known.
    """
    admitted, throttled = traffic
    waits = throttled >= settings.throttled_permille
    return WantView(
        broker=broker,
        wants=claim.wants,
        wants_at_least=_least(claim, admitted, throttled=waits),
        weight=claim.weight,
        admitted=admitted,
        limit=limit,
        throttled_permille=throttled,
        report_age_ns=report_age_ns,
    )


def _least(claim: Claim, admitted: int, *, throttled: bool) -> int:
    if claim.wants is None:
        return admitted
    return min(claim.wants, admitted) if throttled else claim.wants


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
        limits=rates_of(
            {dimension: _limit_in_force(state, name, broker, dimension) for dimension in Dimension}
        ),
        throttled_permille=throttled,
        participants=participants,
        topics=topics,
        report_age_ns=_report_age_ns(state, broker, now_ns),
    )


def _limit_in_force(
    state: CoordinatorState, name: str, broker: str, dimension: Dimension
) -> Rate | None:
    decision = state.decider.decisions.get((name, dimension))
    if broker == state.settings.broker:
        return None if decision is None else decision.exact_limit
    row = state.usage.row(broker, name, dimension.monitoring_class)
    if row is not None:
        announced = row.usage.limit_of(dimension.unit)
        split = None if decision is None else decision.split
        if announced is None or split is None or announced != split.target_of(broker):
            return announced
        return split.exact_target_of(broker)
    base = (state.groups or {})[name].base_of(dimension)
    if decision is None or base is None:
        return None
    if decision.split is not None:
        return decision.split.in_force_at(broker)
    return reserve_of(base, len(state.members), state.settings)


def _report_age_ns(state: CoordinatorState, broker: str, now_ns: int) -> int | None:
    if broker == state.settings.broker:
        return 0
    heard_ns = state.usage.heard_ns(broker)
    return None if heard_ns is None else now_ns - heard_ns

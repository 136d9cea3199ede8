"""The sentences of a story: the event that a sidecar handled."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    DrainCompleted,
    DrainRequested,
    Event,
    MembershipJoined,
    ParticipantsChanged,
    SessionConfirmed,
    UsageReportReceived,
)
from coordinator.core.model import MonitoringClass, TrafficKey


def event_sentence(event: Event, own: str) -> str:  # noqa: PLR0911  # one row per event
    """Return an event as a sentence; groups, books and members are compared by the log.

    Args:
        event: the event.
        own: the broker of the sidecar that handled it.
    """
    match event:
        case UsageReportReceived(report):
            what = "its farewell" if report.leaving else f"report {report.sequence:,}"
            return f"{report.broker} sent {what}."
        case SessionConfirmed():
            return f"ZooKeeper confirmed the session of {own}."
        case ParticipantsChanged(group, monitoring_class, participants):
            publish = monitoring_class is MonitoringClass.PUBLISH
            client = "producer" if publish else "consumer"
            if participants:
                return f"The first {client} of {group} connected at {own}."
            return f"The last {client} of {group} left {own}."
        case ConnectionChanged(connection):
            return f"The connection of {own} to ZooKeeper is {connection.value}."
        case MembershipJoined(incarnation):
            return f"ZooKeeper registered {own} as incarnation {incarnation:,}."
        case BrokerAvailabilityChanged(answering):
            return f"The broker of {own} {'answers' if answering else 'stopped answering'}."
        case DrainRequested():
            return f"{own} was told to stop."
        case DrainCompleted():
            return f"{own} has no traffic under way any more."
        case _:
            return f"{own} handled {type(event).__name__}."


def backlog_sentence(key: TrafficKey, began: bool, held_permille: int, rates: Sequence[int]) -> str:  # noqa: FBT001
    """Return that clients of a group began or ceased to wait.

    Args:
        key: the group and class.
        began: whether they began to wait; otherwise they ceased.
        held_permille: the part of the last round in which a client waited, in thousandths.
        rates: messages and bytes admitted per second; empty if they are not known.
    """
    group, monitoring_class = key
    clients = "producers" if monitoring_class is MonitoringClass.PUBLISH else "consumers"
    passed = f"; {rates[0]:,} messages/s and {rates[1]:,} bytes/s passed" if rates else ""
    waited = f"they waited for {held_permille / 10:g} % of the last round{passed}"
    if began:
        return f"A backlog began: {clients} of {group} wait for tokens, {waited}."
    return f"The backlog ended: {clients} of {group} wait for tokens no more, {waited}."


def members_sentence(change: str, members: int) -> str:
    """Return a change of the membership with the number of members after it."""
    now = "1 broker is a member now" if members == 1 else f"{members:,} brokers are members now"
    return f"{change}: {now}."


def waiting_sentence(group: str, broker: str, began: bool) -> str:  # noqa: FBT001
    """Return that clients of a group began or ceased to wait at another broker."""
    return f"Clients of {group} {'wait' if began else 'wait no more'} at {broker}."

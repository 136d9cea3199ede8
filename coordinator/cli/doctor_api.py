"""The doctor's checks of a running sidecar: its state, and its reports about its surroundings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from coordinator.cli.client import AdminClient, NotIdentifiedHere
from coordinator.cli.failures import CommandFailed
from coordinator.cli.findings import Finding, note, ok, wrong
from coordinator.cli.native import native_state
from coordinator.cli.output import counted, span
from coordinator.cli.owners import attached, has_roles
from coordinator.insight.model.conditions import IN_HEALTH, ConditionKind, ConditionView, Severity
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.reconciliation_views import ReconciliationView
from coordinator.insight.model.specification import SpecificationView
from coordinator.insight.model.views import HealthView

_CLOCKS_DIFFER_S = 2.0

_DEGRADATIONS = {
    "ZooKeeper": ("ZOOKEEPER_SUSPENDED", "ZOOKEEPER_LOST"),
    "bus": ("BUS_SILENT",),
    "broker": ("BROKER_DOWN",),
}
_FIXES = {
    "ZooKeeper": "Check zookeeper_servers and that the ensemble has a quorum; "
    "limits are held meanwhile.",
    "bus": "Check bus_service_url and bus_listener_name, and that every sidecar uses the "
    "same bus_topics.",
    "broker": "Check that the broker runs and that broker_web_url is its admin REST.",
}
_WELL = {
    "ZooKeeper": "the session is alive",
    "broker": "answers its sidecar",
}
_FOREIGN_FIX = (
    "Another process writes to the bus topic: restrict it to the sidecars' role; or two sidecars have "
    "one broker_id."
)
_PROVE_ROLES = (
    "Name auth_public_key_files, auth_secret_key_file, gate_tls_client_ca_file or gate_basic_roles in "
    "that sidecar's configuration."
)
_ESCAPES_SHOWN = 5
_CONDITIONS_SHOWN = 5
_CHECKED_HERE = {
    kind.value
    for kind in IN_HEALTH | {ConditionKind.NATIVE_INEXACT, ConditionKind.TRAFFIC_ROUND_THE_GATE}
}
"""Kinds of conditions that other checks tell with more facts."""
_PASSING_STATES = {"STARTING", "LEARNING", "DRAINING"}


def examine_api(client: AdminClient) -> Iterator[Finding]:
    """Check everything that a sidecar's admin API can tell."""
    try:
        health = client.health()
        faults = client.get(dict[str, str], "catalogue", "faults")
        ahead_s = client.clock_ahead_s()
    except NotIdentifiedHere as failure:
        yield wrong("admin API", str(failure), "Any token that the sidecar takes will do.")
        return
    except CommandFailed as failure:
        fix = "Start the sidecar with `pulsar-quota sidecar --config FILE`, or correct --api."
        yield wrong("admin API", str(failure), fix)
        return
    yield ok("admin API", f"answers at {client.url} for {health.broker}")
    yield _state(health)
    yield from _surroundings(health)
    yield _bus(health)
    for path, reason in faults.items():
        yield wrong("store", f"{path} cannot be read: {reason}", "Write that entry anew.")
    yield from _reports(health)
    yield from _failed_tasks(health)
    yield from _views(health)
    yield from _groups(client, health)
    yield from _native(client)
    yield from _reconciliation(client)
    yield from _conditions(client)
    yield _clock(ahead_s)


def _state(health: HealthView) -> Finding:
    state = health.state.value
    if state in _PASSING_STATES:
        return note("state", f"{state}, which passes by itself", "Look again in a few seconds.")
    if state != "ACTIVE":
        reasons = "; ".join(degradation.value for degradation in health.degradations)
        return wrong("state", f"{state}: {reasons}", "Set right what is wrong below.")
    return ok("state", f"ACTIVE with {counted(len(health.members), 'member')}")


def _surroundings(health: HealthView) -> Iterator[Finding]:
    for subject, well in _WELL.items():
        reasons = _reasons(health, subject)
        yield wrong(subject, reasons, _FIXES[subject]) if reasons else ok(subject, well)


def _bus(health: HealthView) -> Finding:
    if reasons := _reasons(health, "bus"):
        return wrong("bus", reasons, _FIXES["bus"])
    others = [member for member in health.members if member.broker != health.broker]
    if not others:
        return note("bus", "no other member, so no reports are expected")
    for member in others:
        age = member.report_age_ns
        if age is None or member.silent:
            since = "never heard" if age is None else f"not heard for {span(age)}"
            return wrong("bus", f"{member.broker} was {since}", _FIXES["bus"])
    return ok("bus", f"every one of {counted(len(others), 'other member')} is heard")


def _reports(health: HealthView) -> Iterator[Finding]:
    for why, number in health.reports_dropped.items():
        text = f"{counted(number, 'report')} not believed: {why}"
        yield wrong("reports", text, _FOREIGN_FIX) if why == "foreign" else note("reports", text)


def _failed_tasks(health: HealthView) -> Iterator[Finding]:
    for task in health.failed_tasks:
        text = f"{task.task} failed {counted(task.failures, 'time')}: {task.reason}"
        yield wrong(
            "tasks", text, "Report what the log says of it; restart that sidecar meanwhile."
        )


def _views(health: HealthView) -> Iterator[Finding]:
    for found in health.disagreements:
        text = f"{found.peer} has gone by other {found.matter.value} for {span(found.age_ns)}"
        fix = (
            "Give all sidecars the same zookeeper_servers, zookeeper_root and bus_topics, and "
            "each a broker_id of its own."
        )
        yield wrong("views", text, fix)


def _groups(client: AdminClient, health: HealthView) -> Iterator[Finding]:
    try:
        definitions = client.definitions()
    except CommandFailed as failure:  # without ZooKeeper, which is reported above
        yield note("groups", str(failure))
        return
    if not health.proves_roles and any(map(has_roles, definitions)):
        text = "roles are attached, and no client can prove one to this gate: all are anonymous"
        yield wrong("roles", text, _PROVE_ROLES)
    used = {found.parent for found in definitions} | set(_named_by_configuration(client))
    for found in definitions:
        if attached(found.attachments) or found.observes or found.name in used:
            continue
        text = f"nothing is attached to {found.name}, so it limits nothing"
        fix = f"pulsar-quota groups attach {found.name} --namespace T/N"
        yield note("groups", text, fix)


def _named_by_configuration(client: AdminClient) -> Iterator[str]:
    """Yield the groups that traffic counts against without an attachment."""
    with suppress(CommandFailed):  # it names none
        yield client.get(SpecificationView, "cluster", "specification").group
    with suppress(CommandFailed):
        yield client.get(DelayedView, "gate", "delayed").group


def _native(client: AdminClient) -> Iterator[Finding]:
    try:
        found = native_state(client)
    except CommandFailed as failure:  # it ended since it told its health
        yield note("native", str(failure))
        return
    if found.path == "gate":
        return
    for condition in found.conditions:
        yield wrong("native", condition.text, condition.fix)
    if not found.conditions:
        groups = counted(len(found.groups), "native group")
        text = f"{groups} steered as {found.service_url} every {found.interval_s} s"
        yield ok("native", text)


def _reconciliation(client: AdminClient) -> Iterator[Finding]:
    try:
        found = client.get(ReconciliationView, "reconciliation")
    except CommandFailed as failure:  # it ended since it told its health
        yield note("round the gate", str(failure))
        return
    if not found.on:
        return
    if found.error:
        fix = "broker_web_url must answer /metrics to the token in broker_token_file."
        yield note("round the gate", f"not known: {found.error}", fix)
        return
    escaping = [each for each in found.escapes if each.escaping]
    for each in escaping[:_ESCAPES_SHOWN]:
        yield wrong("round the gate", each.sentence, f"{each.fix[:1].upper()}{each.fix[1:]}.")
    more = len(escaping) - _ESCAPES_SHOWN
    if more > 0:
        yield note("round the gate", f"{counted(more, 'more row')}; see /quota/v1/reconciliation")
    for missed in found.uncounted[:_ESCAPES_SHOWN]:
        fix = f"{missed.fix[:1].upper()}{missed.fix[1:]}."
        yield note("round the gate", missed.sentence, fix)
    if found.left_out:
        yield note("round the gate", f"{counted(found.left_out, 'account')} too many to compare")
    if not escaping:
        accounts = counted(found.reconciled, "account")
        yield ok("round the gate", f"nothing, of {accounts} every {found.interval_seconds:g} s")


def _conditions(client: AdminClient) -> Iterator[Finding]:
    try:
        hold = client.get(list[ConditionView], "conditions")
    except CommandFailed as failure:  # it ended since it told its health
        yield note("conditions", str(failure))
        return
    found = [each for each in hold if each.condition not in _CHECKED_HERE]
    for each in found[:_CONDITIONS_SHOWN]:
        is_normal = each.severity == Severity.INFO.value
        told = note if is_normal else wrong
        yield told("conditions", each.sentence, each.remedy)
    more = len(found) - _CONDITIONS_SHOWN
    if more > 0:
        yield note("conditions", f"{counted(more, 'more condition')}; see pulsar-quota conditions")
    if not found:
        yield ok("conditions", "none holds")


def _reasons(health: HealthView, subject: str) -> str:
    names = _DEGRADATIONS[subject]
    return "; ".join(t.value for t in health.degradations if t.name in names)


def _clock(ahead_s: float | None) -> Finding:
    if ahead_s is None:
        return note("clock", "the sidecar does not tell its time")
    if abs(ahead_s) > _CLOCKS_DIFFER_S:
        direction = "ahead of" if ahead_s > 0 else "behind"
        text = f"the sidecar's clock is {abs(ahead_s):.0f} s {direction} this machine's"
        # No decision depends on wall clocks, but logs and recorded data are read by them.
        return note("clock", text, "Synchronise both with NTP; logs are hard to compare otherwise.")
    return ok("clock", "agrees with this machine's")

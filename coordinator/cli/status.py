"""``pulsar-quota status``: the answering sidecar, its members, and a line per limit.

Beside it ``conditions``: what holds now and an operator should know of, and the remedies; and
``log-level``: the level of the sidecar's log, changed while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console

from coordinator.cli.consoles import console, table
from coordinator.cli.failures import WrongUse
from coordinator.cli.fields import DIMENSION_NAMES
from coordinator.cli.output import ago, counted, percent, print_json, rate, span
from coordinator.cli.session import session_of
from coordinator.core.demand.observing import OBSERVE
from coordinator.core.model import Dimension, LimitKey
from coordinator.insight.model.conditions import IN_HEALTH, ConditionView, Severity
from coordinator.insight.model.views import GroupCertificatesView, GroupUsageView, HealthView
from coordinator.runtime.logs import LEVELS

_CONDITIONS_SHOWN = 10
TRIED_OUT = "tried out: holds nothing back"
"""Told of a group that is observed, in place of the clients that would wait."""
_IN_HEALTH = {kind.value for kind in IN_HEALTH}
_CONDITION_COLUMNS: Mapping[str, Callable[[ConditionView], str]] = {
    "severity": lambda each: each.severity,
    "condition": lambda each: each.condition,
    "what": lambda each: each.sentence,
    "what to do": lambda each: each.remedy,
}


def status(context: typer.Context) -> None:
    """Show the state of the sidecar, its members and its groups."""
    session = session_of(context)
    with session.connect() as client:
        health = client.health()
        usage = client.pages(GroupUsageView, "usage")
        certified = client.pages(GroupCertificatesView, "certificate")
        hold = client.get(list[ConditionView], "conditions")
    if session.as_json:
        print_json(
            {"health": health, "groups": usage, "certificates": certified, "conditions": hold}
        )
        return
    out = console()
    _print_health(out, health)
    for line in condition_lines(hold):
        out.print(f"  {line}")
    members = table(["member", "API", ">incarnation", ">last report"])
    for row in member_rows(health):
        members.add_row(*row)
    out.print(members)
    groups = table(
        ["group", "dimension", ">limit", ">at most", ">admitted", ">used", ">brokers", "throttled"]
    )
    bounds = {
        (each.group, certificate.dimension): certificate.most
        for each in certified
        for certificate in each.certificates
    }
    for group in usage:
        for row in summary_rows(group, bounds):
            groups.add_row(*row)
    out.print(groups if usage else "There are no resource groups.")


def conditions(context: typer.Context) -> None:
    """List what holds and matters: limits that are near, views that disagree, lost peers and more."""
    session = session_of(context)
    with session.connect() as client:
        found = client.get(list[ConditionView], "conditions")
    session.show_rows(found, _CONDITION_COLUMNS, "No condition holds.")


def log_level(
    context: typer.Context,
    level: Annotated[
        str | None,
        typer.Argument(
            help=f"{', '.join(LEVELS)}; shows the present one without.", show_default=False
        ),
    ] = None,
) -> None:
    """Show or set the level of the sidecar's log, until it is set again or restarts."""
    if level is not None and level not in LEVELS:
        raise WrongUse(f"{level}: use one of {', '.join(LEVELS)}.")
    session = session_of(context)
    with session.connect() as client:
        if level is not None:
            client.send("PUT", "/quota/v1/log-level", {"level": level})
        found = client.get(dict[str, str], "log-level")
    session.tell(found, found["level"])


def condition_lines(found: Sequence[ConditionView]) -> list[str]:
    """Return the conditions that the health does not tell; the normal effects of limits are counted."""
    further = [each for each in found if each.condition not in _IN_HEALTH]
    wrong = [each for each in further if each.severity != Severity.INFO.value]
    lines = [f"{each.severity}: {each.sentence}" for each in wrong[:_CONDITIONS_SHOWN]]
    rest = len(further) - len(lines)
    if rest:
        what = "more condition" if lines else "condition"
        lines.append(f"{counted(rest, what)}: pulsar-quota conditions")
    return lines


def _print_health(out: Console, health: HealthView) -> None:
    ready = "ready" if health.ready else "not ready"
    out.print(f"{health.broker} is {health.state.value} ({ready}), round {health.round:,}")
    out.print(f"  limits are held {held_by(health)}")
    for degradation in health.degradations:
        out.print(f"  degraded: {degradation.value}")
    for found in health.disagreements:
        out.print(f"  {found.peer} has gone by other {found.matter.value} for {span(found.age_ns)}")
    for broker, number in health.announcements_capped.items():
        out.print(f"  {broker} announced more than twice its target {counted(number, 'time')}")
    for broker, number in health.foreign_reports.items():
        out.print(f"  {counted(number, 'report')} in the name of {broker} came from elsewhere")
    for task in health.failed_tasks:
        state = "runs" if task.runs else "waits to be run again"
        failed = counted(task.failures, "time")
        out.print(f"  {task.task} failed {failed} and {state}: {task.reason}")
    for why, number in health.reports_dropped.items():
        out.print(f"  {counted(number, 'report')} dropped: {why}")
    recording = health.recording
    if recording is not None and not recording.recording:
        waiting = f"{counted(recording.rows_waiting, 'row')} waiting"
        dropped = f"{recording.rows_dropped:,} dropped"
        out.print(f"  cannot record: {recording.reason} ({waiting}, {dropped})")


def held_by(health: HealthView) -> str:
    """Return what enforces limits at the answering sidecar's broker, in words."""
    return {
        "native": "by the broker's own limiter, which the sidecar steers (see: pulsar-quota native show)",
        "gate+native": "by the gate, and by the broker's own limiter above it for what goes round it",
    }.get(health.enforcement_path, "by the gate")


def member_rows(health: HealthView) -> list[tuple[str, ...]]:
    """Return one row per member."""
    rows: list[tuple[str, ...]] = []
    for member in health.members:
        age = member.report_age_ns
        mine = " (this one)" if member.broker == health.broker else ""
        rows.append(
            (
                member.broker + mine,
                member.api_address or "-",
                str(member.incarnation),
                "none yet" if age is None else ago(age),
            )
        )
    return rows


def summary_rows(
    group: GroupUsageView, bounds: Mapping[LimitKey, int | None]
) -> list[tuple[str, ...]]:
    """Return one row per limited dimension; one for a group without limits.

    Args:
        group: the rates that its brokers admit.
        bounds: the most that all local limits together can be, by group and dimension.
    """
    rows: list[tuple[str, ...]] = []
    taking_part = sum(row.participants > 0 for row in group.brokers)
    for dimension in Dimension:
        limit = group.limits.of(dimension)
        if limit is None:
            continue
        bound = bounds.get((group.group, dimension))
        admitted = sum(row.admitted.of(dimension) or 0 for row in group.brokers)
        throttled = [r.broker for r in group.brokers if r.throttled_permille[dimension] > 0]
        waits = TRIED_OUT if group.enforcement == OBSERVE else ", ".join(throttled) or "-"
        rows.append(
            (
                group.group,
                DIMENSION_NAMES[dimension.value],
                rate(limit),
                "?" if bound is None else f"{bound:,}",
                f"{admitted:,}",
                percent(float(admitted / limit)) if limit else "-",
                str(taking_part),
                waits,
            )
        )
    return rows or [(group.group, "-", "unlimited", "-", "-", "-", str(taking_part), "-")]

"""``pulsar-quota status``: the answering sidecar, its members, and a line per limit."""

from __future__ import annotations

from collections.abc import Mapping

import typer
from rich.console import Console

from coordinator.cli.answers import DIMENSION_NAMES, UNLIMITED, GroupUsage, Health
from coordinator.cli.client import AdminClient
from coordinator.cli.failures import CommandFailed
from coordinator.cli.output import console, counted, percent, print_json, rate, seconds, table
from coordinator.cli.session import session_of


def status(context: typer.Context) -> None:
    """Show the state of the sidecar, its members and its groups."""
    session = session_of(context)
    with session.connect() as client:
        health = client.health()
        usage = client.usage()
        certified = client.certificates()
        round_the_gate = _round_the_gate(client)
    if session.as_json:
        print_json(
            {
                "health": health,
                "groups": usage,
                "certificates": certified,
                "roundTheGate": round_the_gate,
            }
        )
        return
    out = console()
    _print_health(out, health)
    for sentence in round_the_gate:
        out.print(f"  {sentence}")
    members = table(["member", "API", ">incarnation", ">last report"])
    for row in member_rows(health):
        members.add_row(*row)
    out.print(members)
    groups = table(
        ["group", "dimension", ">limit", ">at most", ">admitted", ">used", ">brokers", "throttled"]
    )
    bounds = {
        (each["group"], certificate["dimension"]): certificate["most"]
        for each in certified
        for certificate in each["certificates"]
    }
    for group in usage:
        for row in summary_rows(group, bounds):
            groups.add_row(*row)
    out.print(groups if usage else "There are no resource groups.")


def _round_the_gate(client: AdminClient) -> list[str]:
    """Return the traffic round the answering sidecar's gate, in sentences; none of old sidecars."""
    try:
        found = client.reconciliation()["escapes"]
    except CommandFailed:
        return []
    return [each["sentence"] for each in found if each["escaping"]]


def _print_health(out: Console, health: Health) -> None:
    ready = "ready" if health["ready"] else "not ready"
    out.print(f"{health['broker']} is {health['state']} ({ready}), round {health['round']:,}")
    out.print(f"  limits are held {held_by(health)}")
    for trouble in health["troubles"]:
        out.print(f"  trouble: {trouble['reason']}")
    for found in health["disagreements"]:
        out.print(
            f"  {found['peer']} has gone by other {found['matter']} for {seconds(found['ageMillis'])}"
        )
    for suspect in health["suspects"]:
        about = ", ".join(filter(None, (suspect["group"], suspect["detail"])))
        where = f" ({about})" if about else ""
        last = seconds(suspect["ageMillis"])
        out.print(
            f"  {suspect['broker']} {suspect['reason']}{where}: {counted(suspect['count'], 'time')}, "
            f"{last} ago"
        )
    for task in health["failedTasks"]:
        state = "runs" if task["runs"] else "waits to be run again"
        failed = counted(task["failures"], "time")
        out.print(f"  {task['task']} failed {failed} and {state}: {task['reason']}")
    for why, number in health["reportsDropped"].items():
        out.print(f"  {counted(number, 'report')} dropped: {why}")
    recording = health["recording"]
    if recording is not None and not recording["recording"]:
        waiting = f"{counted(recording['rowsWaiting'], 'row')} waiting"
        dropped = f"{recording['rowsDropped']:,} dropped"
        out.print(f"  cannot record: {recording['reason']} ({waiting}, {dropped})")


def held_by(health: Health) -> str:
    """Return what enforces limits at the answering sidecar's broker, in words; old ones have a gate."""
    return {
        "native": "by the broker's own limiter, which the sidecar steers (see: pulsar-quota native show)",
        "gate+native": "by the gate, and by the broker's own limiter above it for what goes round it",
    }.get(health.get("enforcementPath", "gate"), "by the gate")


def member_rows(health: Health) -> list[tuple[str, ...]]:
    """Return one row per member."""
    rows: list[tuple[str, ...]] = []
    for member in health["members"]:
        age = member["reportAgeMillis"]
        mine = " (this one)" if member["broker"] == health["broker"] else ""
        rows.append(
            (
                member["broker"] + mine,
                member["apiAddress"] or "-",
                str(member["incarnation"]),
                "none yet" if age is None else f"{seconds(age)} ago",
            )
        )
    return rows


def summary_rows(
    group: GroupUsage, bounds: Mapping[tuple[str, str], int | None]
) -> list[tuple[str, ...]]:
    """Return one row per limited dimension; one for a group without limits.

    Args:
        group: the rates that its brokers admit.
        bounds: the most that all local limits together can be, by group and dimension.
    """
    limited = [name for name in DIMENSION_NAMES if group["limits"][name] != UNLIMITED]
    rows: list[tuple[str, ...]] = []
    for dimension in limited:
        limit = group["limits"][dimension]
        bound = bounds.get((group["group"], dimension))
        admitted = sum(row["admitted"][dimension] for row in group["brokers"])
        throttled = [r["broker"] for r in group["brokers"] if r["throttledShare"][dimension] > 0]
        rows.append(
            (
                group["group"],
                DIMENSION_NAMES[dimension],
                rate(limit),
                "?" if bound is None else f"{bound:,}",
                f"{admitted:,}",
                percent(admitted / limit) if limit else "-",
                str(len(group["brokers"])),
                ", ".join(throttled) or "-",
            )
        )
    return rows or [
        (group["group"], "-", "unlimited", "-", "-", "-", str(len(group["brokers"])), "-")
    ]

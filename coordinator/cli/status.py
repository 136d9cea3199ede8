"""``pulsar-quota status``: the answering sidecar, its members, and a line per limit."""

from __future__ import annotations

from collections.abc import Mapping

import typer
from rich.console import Console

from coordinator.cli.answers import DIMENSION_NAMES, UNLIMITED, GroupUsage, Health
from coordinator.cli.output import console, counted, percent, print_json, rate, seconds, table
from coordinator.cli.session import session_of


def status(context: typer.Context) -> None:
    """Show the state of the sidecar, its members and its groups."""
    session = session_of(context)
    with session.connect() as client:
        health = client.health()
        usage = client.usage()
        certified = client.certificates()
    if session.as_json:
        print_json({"health": health, "groups": usage, "certificates": certified})
        return
    out = console()
    _print_health(out, health)
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


def _print_health(out: Console, health: Health) -> None:
    ready = "ready" if health["ready"] else "not ready"
    out.print(f"{health['broker']} is {health['state']} ({ready}), round {health['round']:,}")
    for trouble in health["troubles"]:
        out.print(f"  trouble: {trouble['reason']}")
    for found in health["disagreements"]:
        out.print(
            f"  {found['peer']} has gone by other {found['matter']} for {seconds(found['ageMillis'])}"
        )
    for suspect in health["suspects"]:
        where = f" ({suspect['group']})" if suspect["group"] else ""
        last = seconds(suspect["ageMillis"])
        out.print(
            f"  {suspect['broker']} {suspect['reason']}{where}: {counted(suspect['count'], 'time')}, "
            f"{last} ago"
        )
    for why, number in health["reportsDropped"].items():
        out.print(f"  {counted(number, 'report')} dropped: {why}")
    recording = health["recording"]
    if recording is not None and not recording["recording"]:
        waiting = f"{counted(recording['rowsWaiting'], 'row')} waiting"
        dropped = f"{recording['rowsDropped']:,} dropped"
        out.print(f"  cannot record: {recording['reason']} ({waiting}, {dropped})")


def member_rows(health: Health) -> list[tuple[str, ...]]:
    """One row a member."""
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
    """One row per dimension that is limited; one for a group without limits.

    Args:
        group: what its brokers admit.
        bounds: what all local limits together can be at most, by group and dimension.
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

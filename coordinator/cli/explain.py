"""``pulsar-quota explain``: why a broker's limit is what it is, or was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated

import typer
from rich.table import Table

from coordinator.cli.answers import DIMENSION_NAMES, UNLIMITED, Explanation, PastDecision, Want
from coordinator.cli.failures import WrongUse
from coordinator.cli.moments import age_of, clock_of, here_and_now
from coordinator.cli.output import console, per_second, percent, print_json, rate, seconds, table
from coordinator.cli.session import Session, session_of

Dimension = Annotated[
    str, typer.Option(help=f"One of {', '.join(DIMENSION_NAMES)}.", metavar="DIMENSION")
]
FIRST_DIMENSION = next(iter(DIMENSION_NAMES))
_HISTORY_ROWS = 50


def check_dimension(dimension: str) -> str:
    """Return the dimension.

    Raises:
        WrongUse: there is no such dimension.
    """
    if dimension not in DIMENSION_NAMES:
        raise WrongUse(f"--dimension {dimension}: use one of {', '.join(DIMENSION_NAMES)}.")
    return dimension


def explain(
    context: typer.Context,
    group: Annotated[str, typer.Argument(help="Name of the resource group.", show_default=False)],
    broker: Annotated[
        str | None,
        typer.Option(help="Broker of the limit; the answering sidecar's own by default."),
    ] = None,
    dimension: Dimension = FIRST_DIMENSION,
    at: Annotated[
        str | None, typer.Option(help="Explain the limit of that time, like 12:03.", metavar="TIME")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="List the latest decisions, newest first.")
    ] = False,
) -> None:
    """Say why a broker's limit is what it is, or was."""
    check_dimension(dimension)
    if history and (at or broker):
        raise WrongUse(
            "--history lists the answering sidecar's decisions; leave out --at, --broker."
        )
    now = here_and_now()
    session = session_of(context)
    with session.connect() as client:
        if history:
            _show_history(session, client.decisions(group, dimension, _HISTORY_ROWS), now)
            return
        age = 0 if at is None else max(1, round(age_of(at, now) / timedelta(milliseconds=1)))
        explanation = client.explain(group, dimension, broker, age)
        # The sum of all limits is known for now only.
        certified = [] if age else client.certificate(group)["certificates"]
    if session.as_json:
        print_json(explanation if age else {**explanation, "certificates": certified})
        return
    out = console()
    if age:
        out.print(
            f"As decided at {clock_of(explanation['decidedAgeMillis'], now)}, in force at {at}:"
        )
    out.print(_headline(explanation))
    out.print(f"  {explanation['sentence']}")
    out.print(f"  {_level(explanation)}")
    for certificate in certified:
        if certificate["dimension"] == dimension:
            out.print(f"  {certificate['sentence']}")
    for sentence in _further(explanation):
        out.print(f"  {sentence}")
    if explanation["wants"]:
        out.print(_wants_table(explanation))


def _show_history(session: Session, found: list[PastDecision], now: datetime) -> None:
    if session.as_json:
        print_json(found)
        return
    shown = table(["time", ">cluster", ">limit", "binding", ">brokers", "why"])
    for past in found:
        shown.add_row(
            clock_of(past["ageMillis"], now),
            rate(past["clusterLimit"]),
            rate(past["localLimit"]),
            past["binding"],
            str(past["participants"]),
            past["sentence"],
        )
    console().print(shown if found else "Nothing was decided on this dimension yet.")


def _wants_table(explanation: Explanation) -> Table:
    shown = table(["From", ">wants", ">limit", ">admitted", ">throttled", ">report age", ">weight"])
    for want in explanation["wants"]:
        mine = " (me)" if want["broker"] == explanation["broker"] else ""
        shown.add_row(
            want["broker"] + mine,
            wanted(want),
            rate(want["limit"]),
            f"{want['admitted']:,}",
            percent(want["throttledShare"]),
            seconds(want["reportAgeMillis"]),
            f"{want['weight']:,}",
        )
    return shown


def wanted(want: Want) -> str:
    """Return a broker's demand in words: a rate, a range, or more than it gets if it is unknown."""
    if want["wants"] is not None:
        least = f"{want['wantsAtLeast']:,}-" if want["wantsAtLeast"] < want["wants"] else ""
        return f"{least}{want['wants']:,}"
    known = want["admitted"] if want["limit"] == UNLIMITED else want["limit"]
    return f"> {known:,}"


def _headline(explanation: Explanation) -> str:
    what = DIMENSION_NAMES.get(explanation["dimension"], explanation["dimension"])
    limit = explanation["localLimit"]
    limited = "unlimited" if limit == UNLIMITED else f"limit {per_second(limit)}"
    age = explanation["decidedAgeMillis"] / 1000
    return (
        f"{explanation['group']} · {what} · {explanation['broker']}    {limited}"
        f"    (decided {age:.1f} s ago, round {explanation['round']})"
    )


def _further(explanation: Explanation) -> Iterator[str]:
    """Yield what would change the limit, what else applies, and the result of another law."""
    if explanation["wouldChange"]:
        yield f"Would change it: {'; '.join(explanation['wouldChange'])}."
    yield from explanation["delayed"]
    if slack := explanation.get("slack"):
        yield slack
    yield from explanation.get("roundTheGate", ())
    if explanation["shadow"] is not None:
        yield explanation["shadow"]["sentence"]


def _level(explanation: Explanation) -> str:
    level = explanation["waterLevel"]
    if not explanation["wants"]:
        first = "No broker takes part."
    elif level is None:
        first = "No water level: every broker gets what it wants."
    else:
        first = f"Water level {level:,}: brokers that want more are cut there."
    limit, target = explanation["localLimit"], explanation["target"]
    moving = "" if limit == target else f" On its way to {per_second(target)}."
    return f"{first} Limit of the cluster: {per_second(explanation['clusterLimit'])}.{moving}"

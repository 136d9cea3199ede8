"""``pulsar-quota explain``: why a broker's limit is what it is, or was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated

import typer
from rich.table import Table

from coordinator.cli.client import AdminClient
from coordinator.cli.consoles import console, table
from coordinator.cli.failures import WrongUse
from coordinator.cli.fields import DIMENSION_NAMES
from coordinator.cli.output import ago, lasting, per_second, percent, print_json, rate, span
from coordinator.cli.session import GlobalOptions, session_of
from coordinator.cli.timestamps import age_of, clock_of, here_and_now
from coordinator.core.answer import written
from coordinator.core.model import NANOS_PER_MILLI, Dimension
from coordinator.core.rates import in_digits
from coordinator.insight.model.views import (
    CertificateView,
    Explanation,
    GroupCertificatesView,
    PastDecisionView,
    StoryView,
    WantView,
)

DimensionName = Annotated[
    str, typer.Option(help=f"One of {', '.join(DIMENSION_NAMES)}.", metavar="DIMENSION")
]
FIRST_DIMENSION = next(iter(DIMENSION_NAMES))
_HISTORY_ROWS = 50


def dimension_of(name: str) -> Dimension:
    """Return the dimension of a name.

    Raises:
        WrongUse: there is no such dimension.
    """
    try:
        return Dimension(name)
    except ValueError:
        names = ", ".join(DIMENSION_NAMES)
        raise WrongUse(f"--dimension {name}: use one of {names}.") from None


def explain(
    context: typer.Context,
    group: Annotated[str, typer.Argument(help="Name of the resource group.", show_default=False)],
    broker: Annotated[
        str | None,
        typer.Option(help="Broker of the limit; the answering sidecar's own by default."),
    ] = None,
    dimension: DimensionName = FIRST_DIMENSION,
    at: Annotated[
        str | None, typer.Option(help="Explain the limit of that time, like 12:03.", metavar="TIME")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="List the latest decisions, newest first.")
    ] = False,
    story: Annotated[
        bool,
        typer.Option(
            "--story",
            help="Tell which events arrived when, and what was decided of each; of all dimensions.",
        ),
    ] = False,
) -> None:
    """Say why a broker's limit is what it is, or was."""
    of = dimension_of(dimension)
    if history and (at or broker or story):
        raise WrongUse(
            "--history lists the answering sidecar's decisions; leave out --at, --broker, --story."
        )
    now = here_and_now()
    session = session_of(context)
    with session.connect() as client:
        if history:
            past = client.get(
                list[PastDecisionView],
                "decisions",
                group,
                dimension=dimension,
                limit=_HISTORY_ROWS,
            )
            _show_history(session, past, now)
            return
        age = 0 if at is None else max(1, round(age_of(at, now) / timedelta(milliseconds=1)))
        explanation = client.get(
            Explanation,
            "explain",
            group,
            dimension=dimension,
            broker=broker or None,
            ageMillis=age or None,
            story="true" if story else None,
        )
        # The sum of all limits is known for now only.
        certified = () if age else _certified(client, group)
    if session.as_json:
        print_json(explanation if age else {**written(explanation), "certificates": certified})
        return
    out = console()
    if age:
        out.print(f"As decided at {_clock(explanation.decided_age_ns, now)}, in force at {at}:")
    out.print(_headline(explanation))
    out.print(f"  {explanation.sentence}")
    out.print(f"  {_level(explanation)}")
    for certificate in certified:
        if certificate.dimension is of:
            out.print(f"  {certificate.sentence}")
    for sentence in _further(explanation):
        out.print(f"  {sentence}")
    if explanation.wants:
        out.print(_wants_table(explanation))
    if told := explanation.story:
        out.print(f"The story so far, oldest first. {told.beginning}")
        out.print(_told(told))


def _certified(client: AdminClient, group: str) -> tuple[CertificateView, ...]:
    return client.get(GroupCertificatesView, "certificate", group).certificates


def _told(story: StoryView) -> Table:
    """Return a story as a table: each event with its age, and below it the decisions on it."""
    shown = table([">when", "event, and the decision on it"])
    for event in story.events:
        shown.add_row(ago(event.age_ns), event.event)
        for decision in event.decisions:
            shown.add_row("", decision.sentence)
    return shown


def _show_history(session: GlobalOptions, found: list[PastDecisionView], now: datetime) -> None:
    columns: Mapping[str, Callable[[PastDecisionView], str]] = {
        "time": lambda past: _clock(past.age_ns, now),
        ">cluster": lambda past: rate(past.cluster_limit),
        ">limit": lambda past: rate(past.local_limit),
        "binding": lambda past: past.binding,
        ">brokers": lambda past: str(past.participants),
        "why": lambda past: past.sentence,
    }
    session.show_rows(found, columns, "Nothing was decided on this dimension yet.")


def _wants_table(explanation: Explanation) -> Table:
    shown = table(["From", ">wants", ">limit", ">admitted", ">throttled", ">report age", ">weight"])
    for want in explanation.wants:
        mine = " (me)" if want.broker == explanation.broker else ""
        shown.add_row(
            want.broker + mine,
            wanted(want),
            rate(want.limit),
            f"{want.admitted:,}",
            percent(want.throttled_permille / 1000),
            "-" if want.report_age_ns is None else span(want.report_age_ns),
            f"{want.weight:,}",
        )
    return shown


def wanted(want: WantView) -> str:
    """Return a broker's demand in words: a rate, a range, or more than it gets if it is unknown."""
    if want.wants is not None:
        least = f"{want.wants_at_least:,}-" if want.wants_at_least < want.wants else ""
        return f"{least}{want.wants:,}"
    known = want.admitted if want.limit is None else want.limit
    return f"> {in_digits(known)}"


def _clock(age_ns: int, now: datetime) -> str:
    return clock_of(age_ns // NANOS_PER_MILLI, now)


def _headline(explanation: Explanation) -> str:
    what = DIMENSION_NAMES[explanation.dimension.value]
    limit = explanation.local_limit
    limited = "unlimited" if limit is None else f"limit {per_second(limit)}"
    age = lasting(explanation.decided_age_ns // NANOS_PER_MILLI)
    return (
        f"{explanation.group} · {what} · {explanation.broker}    {limited}"
        f"    (decided {age} ago, round {explanation.round:,})"
    )


def _further(explanation: Explanation) -> Iterator[str]:
    """Yield what would change the limit, what else applies, and the result of another law."""
    if explanation.would_change:
        yield f"This would change it: {'; '.join(explanation.would_change)}."
    yield from explanation.delayed
    yield from explanation.debt
    if explanation.slack:
        yield explanation.slack
    yield from explanation.round_the_gate
    yield from explanation.roles


def _level(explanation: Explanation) -> str:
    level = explanation.water_level
    if not explanation.wants:
        first = "No broker takes part."
    elif level is None:
        first = "No water level: every broker gets what it wants."
    else:
        first = f"Water level {level:,}: brokers that want more are cut there."
    limit, target = explanation.local_limit, explanation.target
    moving = "" if limit == target else f" On its way to {per_second(target)}."
    return f"{first} Limit of the cluster: {per_second(explanation.cluster_limit)}.{moving}"

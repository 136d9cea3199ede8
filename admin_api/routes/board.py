"""The dashboard's data, for every other tool as well: overview, recent past, and preview."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from enum import Enum
from typing import Annotated, Any

from fastapi import Query

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.requests.body import JsonObject
from admin_api.requests.names import GroupName, LimitedName
from admin_api.routes.callers import AnyCaller
from admin_api.routes.common import Backend, coordinator_router, require_defined
from admin_api.schemas.board import Choices, GroupRowBody, HistoryBody, Mark, Overview
from admin_api.schemas.definitions import GroupPatch
from coordinator.core.allocation.laws import LAWS
from coordinator.core.allocation.splitting import WEIGHTS
from coordinator.core.demand.observing import ENFORCEMENTS
from coordinator.core.handling import ON_LIMIT
from coordinator.core.model import Dimension, MonitoringClass
from coordinator.core.transfer.policies import PARTITION_POLICIES, POLICIES
from coordinator.insight.model.board import GroupRow
from coordinator.insight.model.conditions import Severity
from coordinator.insight.model.preview import DimensionPreview
from coordinator.insight.model.settling import GroupStatus
from coordinator.insight.shell.sampler import Sampler
from coordinator.reconciliation.engine.account import Rate

router = coordinator_router("/quota/v1", "dashboard")

MAX_ROWS = 200
"""Groups on one page of the overview."""

_ROWS_PER_STEP = 10
"""Rows that are written before other tasks run: about 0.2 ms."""

_RECENT_SAMPLES = 60
_MAX_SAMPLE = 2**53


class SortKey(Enum):
    """The sort key of the overview; the highest first, names from A to Z."""

    USED = "used"
    NAME = "name"
    ADMITTED = "admitted"
    LIMIT = "limit"
    THROTTLED = "throttled"
    STANDING = "standing"


_URGENCY = (
    GroupStatus.UNLIMITED,
    GroupStatus.IDLE,
    GroupStatus.SETTLED,
    GroupStatus.CONVERGING,
    GroupStatus.DEGRADED,
)


def _foremost(row: GroupRow, field: str) -> int:
    dimension = row.foremost
    return -1 if dimension is None else int(getattr(row.dimensions[dimension], field))


_KEYS: dict[SortKey, Callable[[GroupRow], Any]] = {
    SortKey.USED: lambda row: row.used_permille,
    SortKey.NAME: lambda row: row.group,
    SortKey.ADMITTED: lambda row: _foremost(row, "admitted"),
    SortKey.LIMIT: lambda row: _foremost(row, "limit"),
    SortKey.THROTTLED: lambda row: len(row.throttled),
    SortKey.STANDING: lambda row: _URGENCY.index(row.standing),
}


@router.get("/overview")
async def get_overview(
    backend: Backend,
    contains: Annotated[str, Query(description="only groups with this in their name")] = "",
    group: Annotated[str | None, Query(description="only the group of this name")] = None,
    standing: Annotated[GroupStatus | None, Query(description="only groups that stand so")] = None,
    sort: Annotated[SortKey, Query()] = SortKey.USED,
    reverse: Annotated[bool, Query(description="the lowest first, names from Z to A")] = False,  # noqa: FBT002
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 50,
) -> Overview:
    """Return a page of groups at a glance, as this sidecar sees the whole cluster."""
    history = backend.history
    rows = list(history.board.rows.values())
    wanted = [
        row
        for row in rows
        if contains.lower() in row.group.lower()
        and group in (None, row.group)
        and standing in (None, row.standing)
    ]
    wanted.sort(key=lambda row: row.group)
    descending = (sort is not SortKey.NAME) != reverse
    wanted.sort(key=_KEYS[sort], reverse=descending)
    health = backend.views.health()
    return Overview(
        broker=health.broker,
        state=health.state.value,
        members=len(health.members),
        period_millis=round(history.period_s * 1000),
        age_millis=round(history.age_s() * 1000),
        groups=len(rows),
        matching=len(wanted),
        standings=dict(Counter(row.standing.value for row in rows)),
        throttled=sum(1 for row in rows if row.throttled),
        attention=_attention(backend),
        rows=[body async for body in _bodies(backend, wanted[offset : offset + limit])],
    )


@router.get("/history/{name:path}")
async def get_history(
    name: LimitedName,
    backend: Backend,
    dimension: Annotated[Dimension, Query()] = Dimension.PUBLISH_MESSAGES,
    after: Annotated[
        int, Query(ge=-1, le=_MAX_SAMPLE, description="only samples with a higher number")
    ] = -1,
) -> HistoryBody:
    """Return the last minutes of a group: its limit, and every broker's admitted rate and limit."""
    require_defined(backend, name)
    history = backend.history
    view = history.board.series(name, dimension, after)
    now_ns = history.now_ns()
    groups = backend.views.defined()
    since_ns = view.times_ns[0] if view.times_ns else now_ns
    marks = [
        Mark.of(note, now_ns)
        for note in history.events.kept.notes()
        if note.at_ns >= since_ns and (note.subject == name or note.subject not in groups)
    ]
    return HistoryBody.of(name, dimension, view, marks, now_ns)


@router.post("/preview/{name:path}")
async def preview_change(
    name: GroupName, backend: Backend, _: AnyCaller, content: JsonObject
) -> tuple[DimensionPreview, ...]:
    """Preview a change without making it: every broker's target before and after.

    The body is that of a PUT of the group. Dimensions that are limited neither before nor after are
    left out; a group that does not exist counts as one that limits nothing.
    """
    patch = GroupPatch.parse(content)
    definitions.refuse_strict(backend, patch.overshoot_policy)
    found = definitions.current_catalogue(backend.views).groups.get(name)
    changed = await definitions.definition_after(backend, name, patch, found)
    return backend.history.preview(changed)


@router.get("/choices")
async def list_choices() -> Choices:
    """Return the valid values of a group's settings."""
    return Choices(
        law=sorted(LAWS),
        weights=sorted(WEIGHTS),
        overshoot_policy=sorted(POLICIES),
        partition_policy=sorted(PARTITION_POLICIES),
        enforcement=sorted(ENFORCEMENTS),
        on_limit=sorted(ON_LIMIT),
    )


async def _bodies(backend: AdminBackend, rows: Sequence[GroupRow]) -> AsyncIterator[GroupRowBody]:
    rates = {} if backend.reconciling is None else backend.reconciling.accounts.rates()
    for number, row in enumerate(rows, 1):
        escaping = sum(rates.get((row.group, each), Rate()).bytes for each in MonitoringClass)
        yield _row_body(backend.history, row, escaping)
        if not number % _ROWS_PER_STEP:
            await asyncio.sleep(0)


def _row_body(history: Sampler, row: GroupRow, escaping_bytes: float) -> GroupRowBody:
    recent: tuple[int, ...] = ()
    if row.foremost is not None:
        recent = history.board.totals(row.group, row.foremost, _RECENT_SAMPLES)
    return GroupRowBody.of(row, recent, history.now_ns(), escaping_bytes)


MAX_ATTENTION = 5
"""The most sentences that a page shows; the rest are counted."""


def _attention(backend: AdminBackend) -> list[str]:
    """Return what is wrong, in sentences; the normal effects of a limit (severity info) are left out."""
    health = backend.views.health()
    sentences = [f"{health.broker}: {degradation.value}" for degradation in health.degradations]
    faults = backend.views.catalogue().faults
    sentences += [f"{path} cannot be read: {reason}" for path, reason in sorted(faults.items())]
    sentences += [
        f"{each.peer} goes by other {each.matter.value} than {health.broker}"
        for each in health.disagreements
    ]
    sentences += [
        each.sentence
        for each in backend.history.conditions.beside_health()
        if each.kind.severity is not Severity.INFO
    ]
    more = len(sentences) - MAX_ATTENTION
    if more > 0:
        sentences[MAX_ATTENTION:] = [
            f"{more} more: pulsar-quota conditions, /quota/v1/catalogue/faults"
        ]
    return sentences

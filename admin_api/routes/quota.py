"""Endpoints beyond Pulsar's, by group: definitions, usage, limits in force, trees, and their reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, TypeVar

from fastapi import Query, Response

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.conditions import etag_of
from admin_api.requests.names import GroupName, LimitedName
from admin_api.routes.common import Backend, coordinator_router, require_defined
from admin_api.routes.pages import Page, PageOfGroups
from coordinator.core.model import (
    NANOS_PER_MILLI,
    NANOS_PER_SECOND,
    Attachments,
    Dimension,
    MonitoringClass,
    ResourceGroup,
)
from coordinator.core.topics import names_scalable
from coordinator.core.transfer.tree_rules import children_of
from coordinator.insight.model.bounded_events import MAX_EVENTS
from coordinator.insight.model.definitions import AttachmentsView, Definition
from coordinator.insight.model.explain import UnknownBroker, UnknownGroup
from coordinator.insight.model.reconciliation_views import NOT_RECONCILED, ReconciliationView
from coordinator.insight.model.roles import role_sentences
from coordinator.insight.model.trees import TreeView
from coordinator.insight.model.views import (
    CertificateView,
    Explanation,
    GroupCertificatesView,
    GroupLimitsView,
    GroupUsageView,
    GroupView,
    PastDecisionView,
    StoryView,
)
from coordinator.insight.shell.views import SidecarViews
from coordinator.native.engine.views import NativeState

_DELIVERIES = {MonitoringClass.PUBLISH: "publish", MonitoringClass.DISPATCH: "delivery"}

router = coordinator_router("/quota/v1", "quota")


Entry = TypeVar("Entry")

OfDimension = Annotated[Dimension, Query()]

MAX_AGE_MILLIS = 2**53
"""JavaScript's largest whole number."""

NOT_BY_BROKERS = "Roles are not limited here: brokers' own limiters do not know them."

NO_PROOF = (
    "No client can prove a role at this gate, so all are anonymous: name auth_public_key_files, "
    "auth_secret_key_file, gate_tls_client_ca_file or gate_basic_roles in the sidecar's configuration."
)

_DECISION_POLLS = 200
_DECISION_POLL_S = 0.005


@router.get("/groups")
async def list_definitions(backend: Backend, page: PageOfGroups) -> list[Definition]:
    """Return every resource group in full; in pages, see the Link header."""
    catalogue = definitions.current_catalogue(backend.views)
    groups = catalogue.groups
    attached = AttachmentsView.by_group(catalogue.attachments, page.names(groups))
    children: dict[str, list[str]] = {}
    for name, each in sorted(groups.items()):
        if each.group.parent:
            children.setdefault(each.group.parent, []).append(name)

    def definition(name: str) -> tuple[Definition, int]:
        below = tuple(children.get(name, ()))
        found = Definition.of(groups[name].group, attachments=attached[name], children=below)
        return found, 1

    return await page.of(groups, definition)


@router.get("/groups/{name:path}")
async def get_definition(name: LimitedName, response: Response, backend: Backend) -> Definition:
    """Return one group in full: limits, our own settings, versions and attachments."""
    if names_scalable(name):
        return _topic_group(backend, name)
    found = await definitions.read_group(backend, name)
    response.headers["ETag"] = etag_of(found.version)
    catalogue = definitions.current_catalogue(backend.views)
    attached = AttachmentsView.by_group(catalogue.attachments, [name])[name]
    children = children_of(name, (each.group for each in catalogue.groups.values()))
    return Definition.of(found.group, attachments=attached, children=tuple(sorted(children)))


def _topic_group(backend: AdminBackend, name: str) -> Definition:
    """Return the group that a scalable topic is by itself; its limit has a path of its own."""
    limit = backend.topic_limits.known().get(name)
    if limit is None or name not in backend.views.defined():
        raise ApiError(404, NO_SUCH_GROUP)
    group = ResourceGroup(name, limit.limits, configuration_version=limit.version or 0)
    attached = AttachmentsView.by_group(Attachments(), [name])[name]
    return Definition.of(group, attachments=attached, children=())


@router.get("/usage")
async def list_usage(backend: Backend, page: PageOfGroups) -> list[GroupUsageView]:
    """Return the rates that every broker admits of every group; in pages, see the Link header."""
    return await _of_all(backend, page, lambda view: view.usage)


@router.get("/usage/{name:path}")
async def get_usage(name: LimitedName, backend: Backend) -> GroupUsageView:
    """Return the rates that every broker admits of one group."""
    return backend.views.group_view(name).usage


@router.get("/limits")
async def list_limits(backend: Backend, page: PageOfGroups) -> list[GroupLimitsView]:
    """Return every group's limit for the cluster and local limits in force; in pages, as the usage."""
    return await _of_all(backend, page, lambda view: view.local_limits)


@router.get("/explain/{name:path}")
async def explain(
    name: LimitedName,
    backend: Backend,
    dimension: OfDimension = Dimension.PUBLISH_MESSAGES,
    broker: Annotated[str | None, Query(description="this sidecar's own when absent")] = None,
    age_millis: Annotated[
        int,
        Query(alias="ageMillis", ge=0, le=MAX_AGE_MILLIS, description="so long ago; 0 is now"),
    ] = 0,
    story: Annotated[  # noqa: FBT002  # a parameter of the query has a name anyway
        bool, Query(description="list the events up to then, with what was decided of each")
    ] = False,
) -> Explanation:
    """Explain a broker's local limit, now or earlier; past and story are the own broker's only."""
    told = _story(backend, name, broker, age_millis) if story else None
    if age_millis:
        return replace(_explained_then(backend, name, dimension, broker, age_millis), story=told)
    view = await _decided(backend.views, name, dimension, broker)
    view = replace(
        view, would_change=backend.views.would_change(name, dimension, broker), story=told
    )
    if view.broker != backend.views.health().broker:
        return view
    return replace(
        view,
        delayed=await _of_delayed(backend, view),
        debt=await _debt(backend, view),
        slack=_slack(backend, view),
        round_the_gate=_round_the_gate(backend, view),
        roles=await _roles(backend, view),
    )


@router.get("/decisions/{name:path}")
async def list_decisions(
    name: LimitedName,
    backend: Backend,
    dimension: OfDimension = Dimension.PUBLISH_MESSAGES,
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS)] = 20,
) -> list[PastDecisionView]:
    """Return the decisions on this sidecar's own local limit, newest first.

    A decision is kept when cause or limit of the cluster changed, or the local limit moved notably.
    """
    require_defined(backend, name)
    found = backend.history.events.decisions(name, dimension)[:limit]
    now_ns = backend.history.now_ns()
    return [past.listed(number, now_ns - at_ns) for number, at_ns, past in found]


@router.get("/certificate")
async def list_certificates(backend: Backend, page: PageOfGroups) -> list[GroupCertificatesView]:
    """Return the most that every group's local limits can add up to now; in pages, as the usage."""
    native = backend.native_state(page.names(backend.views.defined()))
    return await _of_all(backend, page, lambda view: _certified(backend, view.group, native))


@router.get("/certificate/{name:path}")
async def get_certificate(name: LimitedName, backend: Backend) -> GroupCertificatesView:
    """Return the most that one group's local limits can add up to now, and its assumptions."""
    return _certified(backend, name, backend.native_state([name]))


@router.get("/native")
async def native(backend: Backend, page: PageOfGroups) -> NativeState:
    """Return the state of native enforcement; its groups, if any, in pages, see the Link header."""
    if backend.native is None:
        return NativeState(backend.enforcement_path)
    names = backend.native.names()
    state = backend.native.state(page.names(names))
    views = {view.name: view for view in state.groups}
    groups = await page.of(names, lambda name: (views[name], 1))
    return replace(state, groups=tuple(groups))


@router.get("/reconciliation")
async def reconciliation(backend: Backend) -> ReconciliationView:
    """Return the escaped traffic of each namespace and class; none where there is no gate."""
    return NOT_RECONCILED if backend.reconciling is None else backend.reconciling.view()


@router.get("/trees")
async def list_trees(
    backend: Backend,
    page: PageOfGroups,
    dimension: OfDimension = Dimension.PUBLISH_MESSAGES,
) -> list[TreeView]:
    """Return every tree of groups in one dimension, by the name of its root; in pages, as the usage."""

    def tree(name: str) -> tuple[TreeView, int] | None:
        found = backend.views.tree(name, dimension)
        return None if found is None else (found, len(found.groups))

    return await page.of(backend.views.roots(), tree, dimension=dimension.value)


@router.get("/trees/{name:path}")
async def get_tree(
    name: GroupName,
    backend: Backend,
    dimension: OfDimension = Dimension.PUBLISH_MESSAGES,
) -> TreeView:
    """Return the tree that a group belongs to, in one dimension."""
    require_defined(backend, name)
    found = backend.views.tree(name, dimension)
    if found is None:
        raise ApiError(404, f"{name} is in no tree: it has neither a parent nor children")
    return found


def _certified(
    backend: AdminBackend, group: str, native: NativeState | None
) -> GroupCertificatesView:
    """Return a group's certificates; without a native state a gate holds all limits."""
    found = backend.views.certificates(group)
    slacks = [native.slack(group, each.dimension) if native else "" for each in found]
    return GroupCertificatesView(group, tuple(map(CertificateView.of, found, slacks)))


async def _of_all(
    backend: AdminBackend, page: Page, write: Callable[[GroupView], Entry]
) -> list[Entry]:
    """Return a page of what is written of each group; it has a row for each broker of a group."""

    def written(name: str) -> tuple[Entry, int] | None:
        try:
            view = backend.views.group_view(name)
            return write(view), len(view.brokers)
        except UnknownGroup:
            return None  # deleted since the names were listed

    return await page.of(backend.views.defined(), written)


async def _decided(
    views: SidecarViews, group: str, dimension: Dimension, broker: str | None
) -> Explanation:
    """Return the explanation; wait a moment for the first decision on a new group."""
    for _ in range(_DECISION_POLLS):
        try:
            return views.explain(group, dimension, broker)
        except UnknownGroup:
            if group not in views.defined():
                raise
        await asyncio.sleep(_DECISION_POLL_S)
    raise ApiError(503, "Nothing is decided on this ResourceGroup yet; try again")


def _story(backend: AdminBackend, group: str, broker: str | None, age_millis: int) -> StoryView:
    _require_own(backend, broker)
    now_ns = backend.history.now_ns()
    return backend.history.story(group, now_ns - age_millis * NANOS_PER_MILLI)


def _slack(backend: AdminBackend, view: Explanation) -> str:
    """Return the slack of the broker's own limiter, where it holds the limit."""
    native = None if view.cluster_limit is None else backend.native_state([view.group])
    return "" if native is None else native.slack(view.group, view.dimension)


def _round_the_gate(backend: AdminBackend, view: Explanation) -> tuple[str, ...]:
    """Return the traffic of the group's namespaces that goes round the own gate, of the class."""
    if backend.reconciling is None:
        return ()
    accounts = backend.reconciling.accounts
    return accounts.sentences_of(view.group, view.dimension.monitoring_class)


async def _debt(backend: AdminBackend, view: Explanation) -> tuple[str, ...]:
    """Return who took much of the limit in advance at the own gate, while it is not paid for."""
    of = view.dimension.monitoring_class
    return tuple(
        held.debtor.sentence(_DELIVERIES[of], held.owed_ns)
        for held in await backend.gate.holds()
        if held.debtor and held.owed_ns and (held.name, held.monitoring_class) == (view.group, of)
    )


async def _roles(backend: AdminBackend, view: Explanation) -> tuple[str, ...]:
    """Return the roles that the own gate counts against the group; of brokers alone, that they do not."""
    attached = backend.views.catalogue().attachments.roles_of(view.group)
    if not attached:
        return ()
    if backend.enforcement_path == "native":
        return (NOT_BY_BROKERS,)
    if not backend.proves_roles:
        return (NO_PROOF,)
    return role_sentences(await backend.gate.role_traffic(), view.group, view.dimension)


async def _of_delayed(backend: AdminBackend, view: Explanation) -> tuple[str, ...]:
    """Return the own gate's facts about the group's messages, if it counts delayed ones."""
    if view.group != backend.delayed_group:
        return ()
    counted = await backend.gate.delayed()
    return () if counted is None else counted.sentences


def _explained_then(
    backend: AdminBackend, group: str, dimension: Dimension, broker: str | None, age_millis: int
) -> Explanation:
    require_defined(backend, group)
    _require_own(backend, broker)
    now_ns = backend.history.now_ns()
    when_ns = now_ns - age_millis * NANOS_PER_MILLI
    events = backend.history.events
    past = events.decision_at(group, dimension, when_ns)
    if past is None:
        kept = events.decisions(group, dimension)
        begins = "is empty"
        if kept:
            begins = f"begins {(now_ns - kept[-1][1]) // NANOS_PER_SECOND} s ago"
        raise ApiError(404, f"What was decided then is not known: the history here {begins}")
    return past.explanation(now_ns)


def _require_own(backend: AdminBackend, broker: str | None) -> None:
    """Refuse to tell what another broker decided.

    Raises:
        ApiError: the broker is another one than this sidecar's; its own sidecar knows.
        UnknownBroker: it is no member.
    """
    own = backend.views.health()
    if broker in (None, own.broker):
        return
    member = next((each for each in own.members if each.broker == broker), None)
    if member is None:
        raise UnknownBroker(broker)
    reason = f"What {broker} decided is kept by its own sidecar, {member.api_address}"
    raise ApiError(404, reason)

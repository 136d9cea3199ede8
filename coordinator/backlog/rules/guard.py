"""Actions on exceeded quotas, in the namespaces that are configured for them.

A broker checks once a minute, and never slows a producer that it has let in: a connected producer goes on
until the next check closes it. Here the policy of the quota acts within seconds, and on connected
producers::

    producer_request_hold      --> the gate holds publishes to the topic, while the quota is exceeded
    producer_exception         --> the gate answers them with an error, likewise
    consumer_backlog_eviction  --> the excess is acknowledged, in every subscription

Eviction goes down to nine tenths of the quota, as in Pulsar, and always *up to* a position: doing it
twice equals doing it once, so the broker's own eviction at the same moment loses nothing. The position of
an age is searched for in the topic. A broker could be asked to expire messages older than a number of
seconds, but it refuses that for a backlog of less than 1,000 entries until the oldest is half as old
again. No two sidecars evict the same topic, because each asks its own broker alone, and only the owner of
a topic carries it out. Pulsar's own cursors are left alone: no client consumes for them.

A dry run decides and records the same actions, and carries out none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from coordinator.backlog.rules.evictions import EvictionCounts
from coordinator.backlog.rules.model import Position, QuotaPolicy, QuotaType, TopicStorage
from coordinator.backlog.rules.views import BacklogView
from coordinator.core.answer import answer
from coordinator.core.topics import TopicName

ACTIONS: Final = 1_000
"""Actions that are remembered; the log has all of them."""


class Enforcement(Enum):
    """The mode of enforcement in a namespace."""

    DRY_RUN = "dry-run"
    ENFORCE = "enforce"


class EnforcementAction(Enum):
    """The kind of an action."""

    HOLD = "hold producers"
    REFUSE = "refuse publishes"
    RELEASE = "release producers"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Block:
    """Publishes to a topic are blocked.

    Args:
        refused: whether they are answered with an error, or held.
        reason: the reason, in words.
    """

    refused: bool
    reason: str


@answer
class Action:
    """An action on an exceeded quota, to carry out, or carried out."""

    topic: str
    deed: EnforcementAction
    quota_type: QuotaType
    """the quota that is exceeded; of a release the one that was"""
    limit: int
    """of the quota, in bytes or seconds"""
    value: int
    """the backlog, in bytes or seconds"""
    dry_run: bool
    """whether it is only recorded"""
    at_ms: int
    """when it was decided"""
    outcome: str = ""
    """its result; empty while it is unknown"""


class BacklogGuard:
    """Decide the actions on exceeded quotas.

    Args:
        namespaces: tenant/namespace to its mode of enforcement; others have no actions.
        evictions: counts them; shared with the reader of the broker's own.
    """

    def __init__(
        self, namespaces: Mapping[str, Enforcement], evictions: EvictionCounts | None = None
    ) -> None:
        self.namespaces = namespaces
        self._blocked: dict[str, Action] = {}
        #: How far the topics whose quota is exceeded were evicted.
        self._evicted_to: dict[str, Position] = {}
        #: The actions, oldest first.
        self.actions: deque[Action] = deque(maxlen=ACTIONS)
        #: The evictions since the start.
        self.evictions = evictions or EvictionCounts()

    def wants(self, topic: str) -> Enforcement | None:
        """Return the mode of enforcement of a topic; None if there is none."""
        if not self.namespaces:
            return None
        name = TopicName.parse(topic)
        return None if name is None else self.namespaces.get(f"{name.tenant}/{name.namespace}")

    @property
    def blocked(self) -> Mapping[str, Action]:
        """Return the topics whose publishes are blocked, or would be but for the dry run."""
        return self._blocked

    def decide(self, views: Iterable[BacklogView], now_ms: int) -> list[Action]:
        """Return the actions that follow from these topics; topics that are missing have moved away."""
        guarded = {view.topic: view for view in views if self.wants(view.topic) is not None}
        actions = [self._release(topic, now_ms) for topic in self._blocked.keys() - guarded.keys()]
        evicting = {name for name, view in guarded.items() if view.exceeded is not None}
        self._evicted_to = {
            topic: position for topic, position in self._evicted_to.items() if topic in evicting
        }
        for view in guarded.values():
            actions += self._decide(view, now_ms)
        return actions

    def done(self, action: Action, outcome: str) -> Action:
        """Record the outcome of an action; return the action as it is remembered."""
        finished = replace(action, outcome=outcome)
        self.actions.append(finished)
        return finished

    def evicted(self, action: Action, position: Position) -> None:
        """Count an eviction that moved at least one subscription.

        A broker answers before it has moved the cursor, so the next look may ask for the same again.
        """
        if self._evicted_to.get(action.topic) != position:
            self.evictions.add(action.topic, action.quota_type)
        self._evicted_to[action.topic] = position

    def _decide(self, view: BacklogView, now_ms: int) -> list[Action]:
        exceeded, held = view.exceeded, self._blocked.get(view.topic)
        policy = None if exceeded is None else view.policy_of(exceeded)
        wanted = None
        if policy in (QuotaPolicy.HOLD, QuotaPolicy.REFUSE):
            wanted = (
                EnforcementAction.HOLD if policy is QuotaPolicy.HOLD else EnforcementAction.REFUSE
            )
        goes_on = (
            held is not None
            and held.deed is wanted
            and held.dry_run is self._is_dry_run(view.topic)
        )
        actions: list[Action] = []
        if held is not None and not goes_on:
            actions.append(self._release(view.topic, now_ms))
        if exceeded is None:
            return actions
        if policy is QuotaPolicy.EVICT:
            actions.append(self._action(view, EnforcementAction.EVICT, exceeded, now_ms))
        elif wanted is not None and not goes_on:
            block = self._action(view, wanted, exceeded, now_ms)
            self._blocked[view.topic] = block
            actions.append(block)
        return actions

    def _release(self, topic: str, now_ms: int) -> Action:
        return replace(self._blocked.pop(topic), deed=EnforcementAction.RELEASE, at_ms=now_ms)

    def _action(
        self, view: BacklogView, deed: EnforcementAction, kind: QuotaType, now_ms: int
    ) -> Action:
        return Action(
            topic=view.topic,
            deed=deed,
            quota_type=kind,
            limit=view.limit_of(kind) or 0,
            value=int(view.value_of(kind)),
            dry_run=self._is_dry_run(view.topic),
            at_ms=now_ms,
        )

    def _is_dry_run(self, topic: str) -> bool:
        return self.wants(topic) is not Enforcement.ENFORCE


def evicted_target(limit: int) -> int:
    """Return the amount that eviction leaves of a quota: nine tenths, as in Pulsar."""
    return limit * 9 // 10


def behind(storage: TopicStorage, position: Position) -> list[str]:
    """Return the subscriptions with unacknowledged entries up to a position; the oldest first."""
    found = sorted(
        (first, cursor.name)
        for cursor in storage.cursors
        if cursor.durable and not cursor.internal
        if (first := storage.first_after(cursor.mark_delete)) is not None and first <= position
    )
    return [name for _, name in found]


def block_of(action: Action) -> Block:
    """Return the block of publishes that an action asks of the gate, with its reason."""
    unit = "bytes" if action.quota_type is QuotaType.SIZE else "seconds"
    reason = f"backlog quota exceeded: {action.value} of {action.limit} {unit}"
    return Block(refused=action.deed is EnforcementAction.REFUSE, reason=reason)

"""The shell of dispatch limits: reads and writes the dispatch rates of topics and namespaces.

What an operator has set is *kept* beside its topic or namespace before the first rate is written over it
(`RatePolicies.keep`), so a sidecar that dies leaves nothing that cannot be undone. Where that was
done, the rate of a topic is a sidecar's: another one that finds it, as after the topic has moved, goes on
from there.

The floor of a namespace is set by the first member, at once where the namespace was not limited before,
or by the next one if it is still wrong two seconds later. Where a namespace is limited no more, all its
topics and its default get their former rates back in the same way. It may have been detached while no
sidecar ran: so after its start a sidecar looks once at every namespace that counts against no group.

A topic's rate costs a request to its broker, and an event that each broker with topics of the namespace
reads. So at most `_WRITES_PER_S` of a namespace are written in a second, falls first; rises of the same
moment wait until those have been answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import structlog

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.topics import namespace_in
from coordinator.native.engine.conditions import Observed
from coordinator.native.engine.dispatch import DispatchSteering, Due
from coordinator.native.engine.outside import OwnerRates, RatePolicies
from coordinator.native.engine.owners import is_replication, topic_of
from coordinator.native.engine.rate_policy import DISPATCH, NO_RATE, PolicyRate, lower_of
from coordinator.native.shell.kept_rates import (
    AT_ONCE,
    NOTHING_SET,
    at_once,
    find,
    former,
    give_all_back,
    give_back,
    rate_of,
)
from coordinator.native.shell.refusals import StepRefusals
from coordinator.native.shell.replicating import ReplicatorRates
from coordinator.native.shell.rounds import rounds
from coordinator.ports import Clock, NotFound, Refused

_EVERY_S: Final = 1.0
_NAMESPACES_EVERY_NS: Final = 2 * NANOS_PER_SECOND
_LOOKED_AT_AGAIN_NS: Final = 30 * NANOS_PER_SECOND
"""A namespace whose floor was right is read again after this time, in case others have changed it, and so
is one that was refused."""

_FREE_AT_ONCE: Final = 64
"""Namespaces without a limit that are looked at in a round."""

_WATCHED_EVERY_NS: Final = NANOS_PER_SECOND
_WATCHED_AT_ONCE: Final = 4
_SUSPECTS_AT_ONCE: Final = 4
"""Rates of topics that are read again in a second, as others may have written them: some of all, and of
those first that are sent more than their rates."""

_TURN_NS: Final = 2 * NANOS_PER_SECOND
_WRITES_PER_S: Final = 5

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


class Dispatching:
    """Keeps the dispatch rates of topics and namespaces, for one sidecar.

    Args:
        dispatch: decides which rates.
        policies: reads and writes them.
        replication: the same for replication to remote clusters.
        seen: takes the reason why they cannot be written.
        clock: monotonic time.
        detached: returns the namespaces that count against no group; None while that is not known.
    """

    def __init__(
        self,
        dispatch: DispatchSteering,
        policies: RatePolicies,
        replication: ReplicatorRates,
        seen: Observed,
        clock: Clock,
        detached: Callable[[], Awaitable[Iterable[str] | None]],
    ) -> None:
        self._dispatch = dispatch
        self._policies = policies
        self._replication = replication
        self._seen = seen
        self._clock = clock
        self._detached = detached
        #: Those of them since the start that have not been looked at; None before they were listed.
        self._left: set[str] | None = None
        #: Whether the limits of single topics were told; without them, too much would be given back.
        self.knows_limits = False
        #: This sidecar's place among the members; None while it is no member.
        self.rank: int | None = None
        self._namespaces_ns = self._watched_ns = -_LOOKED_AT_AGAIN_NS
        #: The namespaces that were limited when they were last looked at.
        self._limited: frozenset[str] = frozenset()
        #: When each limited namespace was last found right, and since when one is wrong.
        self._right_ns: dict[str, int] = {}
        self._wrong_ns: dict[str, int] = {}
        #: The namespaces that were seen not to be limited, with nothing kept beside them.
        self._free: set[str] = set()
        #: When namespaces that are limited no more could not be given all of their former rates back.
        self._refused_ns: dict[str, int] = {}
        #: The times of the last writes, by namespace.
        self._written_ns: dict[str, deque[int]] = {}
        self._watched_from = 0
        #: The rates that operators had set for namespaces, as they were kept.
        self._former: dict[str, str] = {}
        #: Those of the present step.
        self._refusals = StepRefusals()
        #: Set when counters were read, or a limit has changed.
        self.wanted = asyncio.Event()

    async def run(self) -> None:
        """Run for ever; what fails is tried again."""

        def note(reason: str) -> None:
            self._seen.dispatch_error = reason

        await rounds(
            self.step, self.wanted, lambda: _EVERY_S, note, "dispatch rates cannot be kept"
        )

    async def step(self) -> None:
        """Write what is due now.

        Raises:
            PortError: the broker does not answer, or does not allow it; what it refuses of some owners
                keeps no other from its turn.
        """
        self._refusals = StepRefusals()
        if self._seen.facts is None or not self._seen.facts.topic_policies:
            return
        now_ns = self._clock.now_ns()
        floors = self._dispatch.floors()
        is_new = not self._limited.issuperset(floors)
        if is_new or now_ns - self._namespaces_ns >= _NAMESPACES_EVERY_NS:
            self._namespaces_ns, self._limited = now_ns, frozenset(floors)
            await self._look_at_namespaces(floors, now_ns)
        if now_ns - self._watched_ns >= _WATCHED_EVERY_NS:
            self._watched_ns = now_ns
            await self._look_at_rates()
        due = self._dispatch.due(now_ns)
        unknown = [each.topic for each in due if not each.is_known][: 2 * AT_ONCE]
        if unknown:
            await self._each(self._adopt, unknown)
            due = self._dispatch.due(self._clock.now_ns())  # by what was found
        for chosen in self._in_order([each for each in due if each.is_known]):
            await self._each(self._write, chosen)
        await self._each(self._leave, self._dispatch.idle(now_ns))
        await self._replication.refresh(self._dispatch.written_topics())
        self._refusals.raise_first()

    async def _each(self, call: Callable[[_T], Awaitable[None]], items: Sequence[_T]) -> None:
        """Call for all items; what is refused of one is raised at the end of the step."""
        with self._refusals.noted():
            await at_once(call, items)

    # Topics.

    def _rates_of(self, owner: str) -> OwnerRates:
        return self._replication if is_replication(owner) else self._policies

    def _in_order(self, due: Sequence[Due]) -> Iterable[Sequence[Due]]:
        """Return what may be written now: falls, and then rises."""
        now_ns = self._clock.now_ns()
        falls: list[Due] = []
        rises: list[Due] = []
        for each in due:
            written = self._written_ns.setdefault(namespace_in(topic_of(each.topic)), deque())
            while written and now_ns - written[0] >= NANOS_PER_SECOND:
                written.popleft()
            if len(written) < _WRITES_PER_S:
                written.append(now_ns)
                (rises if each.rises else falls).append(each)
        self._written_ns = {name: kept for name, kept in self._written_ns.items() if kept}
        return falls, rises

    async def _adopt(self, topic: str) -> None:
        try:
            await self._find_out(topic)
        except Refused:  # there is none, or of a name that no request can hold
            self._dispatch.missing(topic, self._clock.now_ns())
            raise

    async def _find_out(self, topic: str) -> None:
        """Find out what an operator has set for a topic, and keep it."""
        rates = self._rates_of(topic)
        found = await find(rates, topic)
        partitions = await rates.partitions(topic) if self._dispatch.is_parted(topic) else 0
        by_sidecar = None if found.kept is None else found.present
        if found.kept is None:
            await rates.keep(topic, found.body or NOTHING_SET)
        now_ns = self._clock.now_ns()
        self._dispatch.found(topic, found.by_operator, by_sidecar, now_ns, partitions=partitions)

    async def _write(self, due: Due) -> None:
        await self._rates_of(due.topic).set_rate(due.topic, DISPATCH.body_of(due.rate))
        self._dispatch.written(due.topic, due.rate, self._clock.now_ns())
        log.debug("dispatch rate set", topic=due.topic, rate=due.rate)

    async def _leave(self, topic: str) -> None:
        """Give a topic that nothing consumes, or that is not limited any more, its former rate back."""
        if is_replication(topic):
            await self._replication.leave(topic)
        else:
            await give_back(self._policies, topic, self._dispatch.idle_rate(topic))
        self._dispatch.forget(topic)

    async def _look_at_rates(self) -> None:
        """Read rates that others may have written, a few at a time."""
        topics = self._dispatch.written_topics()
        first = self._watched_from % max(1, len(topics))
        self._watched_from += _WATCHED_AT_ONCE
        some = (*topics[first:], *topics[:first])[:_WATCHED_AT_ONCE]
        suspects = self._dispatch.suspects()[:_SUSPECTS_AT_ONCE]
        await self._each(self._look_at, list(dict.fromkeys((*suspects, *some))))

    async def _look_at(self, topic: str) -> None:
        rates = self._rates_of(topic)
        body = await rates.rate(topic)
        if self._dispatch.seen(topic, rate_of(DISPATCH, body), self._clock.now_ns()):
            log.info("dispatch rate set by others", topic=topic, rate=body)
            await rates.keep(topic, body or NOTHING_SET)

    # Namespaces.

    async def _look_at_namespaces(self, floors: Mapping[str, PolicyRate], now_ns: int) -> None:
        if self._dispatch.has_floors is None:
            self._limited = frozenset()
            return
        attached = self._dispatch.namespaces()
        self._free -= floors.keys()
        looked_at = [
            (namespace, floor)
            for namespace, floor in floors.items()
            if now_ns - self._right_ns.get(namespace, 0) >= _LOOKED_AT_AGAIN_NS
            or self._is_off(namespace, floor)
        ]
        await self._each(self._look_at_namespace, looked_at)
        self._refused_ns = {
            name: at_ns
            for name, at_ns in self._refused_ns.items()
            if now_ns - at_ns < _LOOKED_AT_AGAIN_NS
        }
        if not self.knows_limits:
            return
        free = (attached | self._right_ns.keys()) - floors.keys() - self._free
        free -= self._refused_ns.keys()
        # Those that were limited first; at a start there may be many that never were.
        by_need = sorted(free, key=lambda name: (name not in self._right_ns, name))
        await self._each(self._look_at_free, by_need[:_FREE_AT_ONCE])
        if not by_need and self.rank is not None:
            with self._refusals.noted():
                await self._look_at_left(attached)
        self._free &= attached

    def _is_off(self, namespace: str, floor: PolicyRate) -> bool:
        in_force = self._dispatch.floor(namespace)
        if in_force is None:
            return floor != NO_RATE or namespace not in self._right_ns
        return not _is_near(in_force, lower_of(floor, self._dispatch.default(namespace)))

    async def _look_at_namespace(self, named: tuple[str, PolicyRate]) -> None:
        """Set a namespace's default, given its name and its floor, if it is this sidecar's turn."""
        namespace, floor = named
        found = await find(self._policies, namespace)
        if found.kept is not None:
            self._former[namespace] = found.kept
        kept = self._former.get(namespace)
        body = found.body if kept is None else former(DISPATCH, kept)
        by_operator, present = rate_of(DISPATCH, body), found.present
        self._dispatch.default_found(namespace, by_operator)
        has_floor = floor != NO_RATE
        wanted = lower_of(floor, by_operator) if has_floor else by_operator
        # Without a floor, too, the text says that topics of the namespace have rates of sidecars.
        if found.kept is None or not _is_near(present, wanted):
            is_known = has_floor and kept is not None
            self._dispatch.floor_in_force(namespace, present if is_known else None)
            if not self._is_turn(namespace):
                return
            self._former[namespace] = body or NOTHING_SET
            await self._policies.keep(namespace, self._former[namespace])
            await self._policies.set_rate(
                namespace, DISPATCH.body_of(wanted) if has_floor else body
            )
            log.info("default dispatch rate set", name=namespace, to=wanted)
            present = wanted
        self._dispatch.floor_in_force(namespace, present if has_floor else None)
        self._note_right(namespace)

    async def _look_at_left(self, attached: frozenset[str]) -> None:
        """Look at some of the namespaces that may have been detached while no sidecar ran."""
        if self._left is None:
            detached = await self._detached()
            self._left = None if detached is None else set(detached)
        if self._left:
            self._left -= attached
            await at_once(self._look_at_detached, sorted(self._left)[:_FREE_AT_ONCE])
            self._left -= self._free

    async def _look_at_detached(self, namespace: str) -> None:
        """Free such a namespace; one that is refused is left: it may be of a tenant without limits."""
        try:
            await self._make_free(namespace)
        except (Refused, ValueError) as error:
            log.info("namespace cannot be looked at", name=namespace, reason=str(error))
            self._free.add(namespace)

    async def _look_at_free(self, namespace: str) -> None:
        """Free a namespace that is limited no more; one that is refused is not asked for soon again."""
        try:
            await self._make_free(namespace)
        except (Refused, ValueError):
            self._refused_ns[namespace] = self._clock.now_ns()
            raise

    async def _make_free(self, namespace: str) -> None:
        """Give a namespace that is limited no more its former rates back."""
        try:
            is_kept = await self._policies.kept(namespace) is not None
        except NotFound:
            is_kept = False
        if is_kept:
            if not self._is_turn(namespace):
                return
            await give_all_back(self._policies, namespace, self._dispatch.own_limit)
            log.info("dispatch rates given back", name=namespace)
        for known in (self._former, self._right_ns, self._wrong_ns):
            known.pop(namespace, None)
        self._dispatch.forget_namespace(namespace)
        self._free.add(namespace)

    def _is_turn(self, namespace: str) -> bool:
        now_ns = self._clock.now_ns()
        wrong_ns = now_ns - self._wrong_ns.setdefault(namespace, now_ns)
        return self.rank is not None and wrong_ns >= self.rank * _TURN_NS

    def _note_right(self, namespace: str) -> None:
        self._right_ns[namespace] = self._clock.now_ns()
        self._wrong_ns.pop(namespace, None)


def _is_near(rate: PolicyRate, wanted: PolicyRate) -> bool:
    """Return whether a floor need not be written: each unit is within half and double."""
    for one, other in zip(rate, wanted, strict=True):
        if one is None or other is None:
            if one != other:
                return False
        elif not other <= 2 * one <= 4 * other:
            return False
    return True

"""Pulsar's own records and attachments, kept as native enforcement needs them.

There is no compare-and-set in Pulsar's admin REST, and each write of a record makes every broker let the
whole record pass until its next interval. So one sidecar writes: a wrong value is written by the first
member at once, by the second if it is still wrong two seconds later, and so on; and only after reading.

*A record that has no room for the limit* is written at once. *A record with too much room* does not
affect the limit, which the rest holds meanwhile; it is written after `UNUSED_AFTER_NS`, or at once while
no client publishes.

*A change by others*, to a value that no sidecar wanted of late, is reported and reverted once it has been
wrong for `_CONFIRMED_AFTER_NS`. Until then it may be no edit: another sidecar knows a new limit a moment
earlier, and a broker's cache may answer with the value before a write. The sidecar that reverts it has
always reported it before; one that read earlier or later may never have seen it.

Namespaces in a group of Pulsar that is not known here are left there, and reported.

A broker that hears of an attachment before it has heard of the group forgets the attachment, and one
that hears of a move to another group does so, too; each lets the whole record pass for ever. A topic
that was loaded before its broker knew the group has no limiter at all (overflow.py). So a namespace is
attached a second after its group was seen, and *attached again*, which changes nothing but tells all
brokers and topics, where a broker does not name the group in its reports, or lets too much pass: by the
broker's own sidecar, or by the one that stands in for that. After its broker's start a sidecar does so
for all topics that were loaded early (early.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.conditions import TRANSPORT, Observed
from coordinator.native.engine.entries import Record, rises
from coordinator.native.engine.outside import NativeAdmin
from coordinator.native.engine.sets import ALL_OF
from coordinator.native.engine.steering import Steering
from coordinator.native.shell.refusals import StepRefusals
from coordinator.native.shell.rounds import rounds
from coordinator.ports import Clock

UNUSED_AFTER_NS: Final = 3600 * NANOS_PER_SECOND

_TURN_NS: Final = 2 * NANOS_PER_SECOND
_FACTS_EVERY_NS: Final = 30 * NANOS_PER_SECOND
_NAMESPACES_EVERY_NS: Final = 5 * NANOS_PER_SECOND
_CONFIRMED_AFTER_NS: Final = NANOS_PER_SECOND
_HEARD_OF_AFTER_NS: Final = NANOS_PER_SECOND
_AGAIN_AFTER_NS: Final = 10 * NANOS_PER_SECOND
_AGAIN_MAX_NS: Final = 3600 * NANOS_PER_SECOND
_LOOK_EVERY_S: Final = 2.0
_LOOK_AGAIN_S: Final = 0.5
_WANTED_KEPT: Final = 4
NAMESPACES_MAX: Final = 20_000

log = structlog.get_logger(__name__)


class Upkeep:
    """Keeps the records and attachments of Pulsar, for one sidecar.

    Args:
        steering: the target state.
        admin: reads and writes the present state.
        seen: takes the observations.
        clock: monotonic time.
        service_url: the name in which the broker reports; empty asks it.
    """

    def __init__(
        self,
        steering: Steering,
        admin: NativeAdmin,
        seen: Observed,
        clock: Clock,
        *,
        service_url: str = "",
    ) -> None:
        self._steering = steering
        self._admin = admin
        self._seen = seen
        self._clock = clock
        self._service_url = service_url
        self._everything = False
        self._facts_ns = self._namespaces_ns = -_FACTS_EVERY_NS
        #: This sidecar's place among the members; None while it is no member.
        self.rank: int | None = None
        #: Groups of the store, whether or not any traffic counts against them.
        self.known: frozenset[str] = frozenset()
        #: Time since which each item is wrong.
        self._wrong_ns: dict[tuple[str, str], int] = {}
        #: The records that were wanted of late, by group; a sidecar may have written each of them.
        self._wanted: dict[str, deque[Record]] = {}
        #: The items that were right at the last look.
        self._right: dict[tuple[str, str], object] = {}
        #: When each record was first seen.
        self._first_seen_ns: dict[str, int] = {}
        #: Since when a namespace has been attached to each native group.
        self._attached_ns: dict[str, int] = {}
        #: When a group's namespaces are attached again at the earliest, and the wait after that.
        self._again: dict[str, tuple[int, int]] = {}
        #: Those of the present look.
        self._refusals = StepRefusals()
        #: Whether something has to be looked at again soon.
        self._unconfirmed = False
        #: Set when the target state has changed.
        self.wanted = asyncio.Event()

    def look_at_all_tenants(self) -> None:
        """Look at all tenants: all traffic counts against a group, so all namespaces have to be known."""
        self._everything = True

    async def run(self) -> None:
        """Run for ever."""

        def every_s() -> float:
            return _LOOK_AGAIN_S if self._unconfirmed else _LOOK_EVERY_S

        def note(reason: str) -> None:
            self._seen.admin_error = reason

        await rounds(self.look, self.wanted, every_s, note, "native upkeep failed")

    async def look(self) -> None:
        """Look once at all records and attachments.

        Raises:
            PortError: the broker does not answer, or does not allow it.
            Refused, ValueError: of some record or namespace, the first; all others were looked at.
        """
        now_ns, self._refusals = self._clock.now_ns(), StepRefusals()
        if now_ns - self._facts_ns >= _FACTS_EVERY_NS or self._seen.facts is None:
            await self._look_at_facts()
            self._facts_ns = now_ns
        if now_ns - self._namespaces_ns >= _NAMESPACES_EVERY_NS:
            await self._look_at_namespaces()
            self._namespaces_ns = now_ns
        self._unconfirmed = False
        records, least = self._steering.records(), self._steering.least_records()
        await self._in_turn(
            self._look_at_record(name, record, least[name])
            for name, record in sorted(records.items(), key=self._is_right)
        )
        attachments = self._steering.attachments()
        gone = {key[1]: "" for key in self._right if key[0] == "namespace"}
        namespaces = {**gone, **attachments}
        self._forget_all_but(records, namespaces)
        self._seen.foreign = {n: g for n, g in self._seen.foreign.items() if n in attachments}
        await self._in_turn(
            self._look_at_attachment(namespace, name) for namespace, name in namespaces.items()
        )
        self._note_attached(now_ns)
        await self._attach_early()
        await self._attach_again(now_ns)
        self._refusals.raise_first()

    async def _in_turn(self, looks: Iterable[Awaitable[None]]) -> None:
        """Take looks; what is refused of one keeps no other from its turn: tenants name namespaces."""
        for look in looks:
            with self._refusals.noted():
                await look

    def _forget_all_but(self, records: Container[str], namespaces: Container[str]) -> None:
        """Forget all else: what is limited again later is looked at as if for the first time."""

        def stays(key: tuple[str, str]) -> bool:
            return key[1] in (records if key[0] == "record" else namespaces)

        self._right = {key: wanted for key, wanted in self._right.items() if stays(key)}
        self._wrong_ns = {key: at_ns for key, at_ns in self._wrong_ns.items() if stays(key)}
        self._wanted = {name: kept for name, kept in self._wanted.items() if name in records}
        self._first_seen_ns = {n: at_ns for n, at_ns in self._first_seen_ns.items() if n in records}

    async def _look_at_facts(self) -> None:
        facts = await self._admin.facts()
        if self._service_url:
            facts = replace(facts, service_url=self._service_url)
        if facts != self._seen.facts:
            log.info("broker's resource usage", url=facts.service_url, interval_s=facts.interval_s)
        self._seen.facts = facts
        self._steering.configure(
            facts.service_url,
            max(1, facts.interval_s),
            reads_entries=facts.transport == TRANSPORT,
        )

    async def _look_at_namespaces(self) -> None:
        tenants: Sequence[str] = sorted(self._steering.homes.tenants)
        if self._everything:
            tenants = await self._admin.tenants()
        found: list[str] = []
        for tenant in tenants:
            found += await self._admin.namespaces(tenant)
            if len(found) > NAMESPACES_MAX:
                log.warning("too many namespaces to attach", bound=NAMESPACES_MAX)
                break
        self._steering.set_namespaces(found[:NAMESPACES_MAX])

    def _is_right(self, item: tuple[str, Record]) -> bool:
        return self._right.get(("record", item[0])) == item[1]

    async def _look_at_record(self, name: str, wanted: Record, least: Record) -> None:
        key = ("record", name)
        of_late = self._wanted.setdefault(name, deque(maxlen=_WANTED_KEPT))
        if wanted not in of_late:
            of_late.append(wanted)
        seen = await self._admin.record(name)
        self._steering.set_record(name, seen)
        if seen is not None:
            self._first_seen_ns.setdefault(name, self._clock.now_ns())
        if seen == wanted:
            self._note_right(key, wanted)
            return
        has_room = seen is not None and not rises(seen, least)
        waits = has_room and self._steering.is_used(name, self._clock.now_ns())
        lag_ns = UNUSED_AFTER_NS if waits else 0
        is_edit = key in self._right and seen not in of_late

        async def write() -> None:
            await self._admin.set_record(name, wanted)
            self._steering.set_record(name, wanted)
            self._first_seen_ns.setdefault(name, self._clock.now_ns())

        await self._mend(key, wanted, write, lag_ns, is_edit=is_edit)

    async def _look_at_attachment(self, namespace: str, wanted: str) -> None:
        key = ("namespace", namespace)
        seen = await self._admin.group_of(namespace)
        self._seen.foreign.pop(namespace, None)
        if seen is None or seen == wanted:
            if wanted and seen is not None:
                self._note_right(key, wanted)
            else:
                self._right.pop(key, None)
                self._wrong_ns.pop(key, None)
            return
        if seen and not self._is_ours(seen):
            if wanted:
                self._seen.foreign[namespace] = seen
            return
        if wanted and not self._is_heard_of(wanted):
            self._unconfirmed = True
            return
        is_edit = bool(wanted) and self._right.get(key) == wanted
        await self._mend(
            key, wanted, lambda: self._admin.attach(namespace, wanted), 0, is_edit=is_edit
        )

    def _note_attached(self, now_ns: int) -> None:
        attached = {str(group) for (what, _), group in self._right.items() if what == "namespace"}
        self._attached_ns = {group: self._attached_ns.get(group, now_ns) for group in attached}

    async def _attach_early(self) -> None:
        early = self._steering.early
        self._unconfirmed = self._unconfirmed or early.is_expected
        while early.due:
            namespace, name = next(iter(early.due.items()))
            if await self._renew(namespace, name):
                log.info("attached again after the broker's start", name=namespace, to=name)
            early.due.pop(namespace, None)

    async def _attach_again(self, now_ns: int) -> None:
        if self._seen.facts is None or self._seen.facts.transport != TRANSPORT:
            return  # such a broker reports nothing
        forgotten = self._steering.forgotten(self._attached_ns, now_ns)
        overflowing = self._steering.overflowing()
        self._seen.forgotten = (*sorted(forgotten),)
        self._seen.overflowing = (*sorted(overflowing),)
        again = overflowing | {
            namespace: group
            for namespace, group in self._steering.attachments().items()
            if group in forgotten
        }
        for name in self._again.keys() - set(again.values()):
            del self._again[name]
        due = {name for name in set(again.values()) if self._is_due_again(name, now_ns)}
        for namespace, name in sorted(again.items()):
            if name in due and await self._renew(namespace, name):
                log.warning("attached again", name=namespace, to=name, forgotten=name in forgotten)

    async def _renew(self, namespace: str, group: str) -> bool:
        """Attach a namespace again, unless others have moved it; return whether it was."""
        is_attached = False
        with self._refusals.noted():
            if await self._admin.group_of(namespace) == group:
                await self._admin.attach(namespace, group)
                is_attached = True
        return is_attached

    def _is_due_again(self, group: str, now_ns: int) -> bool:
        if group not in self._again:
            # A broker that has just started names its groups one after the other.
            confirmed_ns = now_ns + self._steering.interval_s * NANOS_PER_SECOND
            self._again[group] = confirmed_ns, _AGAIN_AFTER_NS
        due_ns, wait_ns = self._again[group]
        if now_ns < due_ns:
            self._unconfirmed = self._unconfirmed or wait_ns == _AGAIN_AFTER_NS
            return False
        self._again[group] = now_ns + wait_ns, min(2 * wait_ns, _AGAIN_MAX_NS)
        return True

    def _is_heard_of(self, group: str) -> bool:
        first_ns = self._first_seen_ns.get(group)
        return first_ns is not None and self._clock.now_ns() - first_ns >= _HEARD_OF_AFTER_NS

    def _is_ours(self, group: str) -> bool:
        return group in self.known or group.startswith(ALL_OF)

    async def _mend(
        self,
        key: tuple[str, str],
        wanted: object,
        write: Callable[[], Awaitable[None]],
        lag_ns: int,
        *,
        is_edit: bool,
    ) -> None:
        """Write, if it has been wrong for long enough that it is this sidecar's turn."""
        now_ns = self._clock.now_ns()
        wrong_ns = now_ns - self._wrong_ns.setdefault(key, now_ns)
        if is_edit:
            lag_ns = _CONFIRMED_AFTER_NS
            self._unconfirmed = wrong_ns < lag_ns or self._unconfirmed
            if wrong_ns >= lag_ns:
                self._note_edited(key[1])
        if self.rank is None or wrong_ns < lag_ns + self.rank * _TURN_NS:
            return
        await write()
        log.info("set in Pulsar", what=key[0], name=key[1], to=wanted)
        self._note_right(key, wanted)

    def _note_right(self, key: tuple[str, str], wanted: object) -> None:
        if wanted:
            self._right[key] = wanted
        else:
            self._right.pop(key, None)
        self._wrong_ns.pop(key, None)

    def _note_edited(self, name: str) -> None:
        if self._seen.note_edited(name, self._clock.now_ns()):
            log.warning("changed in Pulsar by others", name=name)

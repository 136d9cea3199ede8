"""Pulsar's own limiter at simulated brokers, and the topic and the records that it lives on.

The loop is that of 4.2.4 (docs/native.md). Once an interval, at a phase of its own, a broker computes
``quota = record * mine / total`` from the last line of every broker, its own included, and *applies* it,
changed or not: full new buckets, and what was owed is forgotten. At another phase it reports what passed
since its last report, if that moved by a twentieth, and after five intervals in any case; its report
replaces what a sidecar wrote in its name. Lines never expire: that of a dead broker counts until it is
overwritten, and a reader that is not connected at that moment never hears of it. Records reach brokers by
another way than lines, and each one that is written is a broker's whole limit until it computes again. A
new broker knows no line at all. A broker that stands still passes nothing, and computes and reports late.

=======================  ===============================================================================
left out                 why
=======================  ===============================================================================
batches                  the message that empties a bucket is one message here (trim.py is for more)
report suppression       of single groups: a report lists all groups, or none
=======================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.entries import NOTHING, Amounts, Record
from coordinator.native.engine.table import Statement
from coordinator.simulation.pip82 import pip82_limit
from coordinator.simulation.schedule import Schedule

INTERVAL_S: Final = 1
_INTERVAL_NS: Final = INTERVAL_S * NANOS_PER_SECOND
_DELAY_NS: Final = (1_000_000, 5_000_000)
_RECORD_DELAY_NS: Final = (5_000_000, 50_000_000)
_FORGOTTEN_NS: Final = 15_000_000
"""A waiting producer looks for tokens every 15 ms or so, so a bucket still has some when the next one
takes its place: 992 of 1,000/s passed at each of three idle brokers of 4.2.4."""

_MOVED_PERMILLE: Final = 50
_REPORTS_WITHIN: Final = 5

Hear = Callable[[Statement], None]


class UsageTopic:
    """Pulsar's topic of resource usage, and its records of groups.

    Args:
        schedule: the world's.
        rng: for delays, and the phases of brokers.
    """

    def __init__(self, schedule: Schedule, rng: Random) -> None:
        self.schedule = schedule
        self.rng = rng
        self.brokers: dict[str, NativeBroker] = {}
        self.records: dict[str, Record] = {}
        #: How often a record was written.
        self.writes = 0
        #: Told of each broker that has just computed its quotas.
        self.computed: Callable[[NativeBroker], None] | None = None
        self._readers: dict[str, Hear] = {}
        #: When each reader hears the latest line that is under way to it; lines keep their order.
        self._arrives_ns: dict[str, int] = {}
        self._away_until_ns: dict[str, int] = {}

    def join(self, reader: str, hear: Hear) -> None:
        """Connect a reader, who may write as well."""
        self._readers[reader] = hear

    def leave(self, reader: str) -> None:
        """Disconnect a reader for good."""
        self._readers.pop(reader, None)

    def disconnect(self, reader: str, until_ns: int) -> None:
        """Lose what a reader would hear, and what it writes, until a moment."""
        self._away_until_ns[reader] = until_ns

    def is_connected(self, reader: str) -> bool:
        """Return whether a reader hears and is heard."""
        return self.schedule.now_ns >= self._away_until_ns.get(reader, 0)

    def say(self, writer: str, said: Statement) -> None:
        """Write a line: each reader hears it some milliseconds later."""
        if not self.is_connected(writer):
            return
        for reader in self._readers:
            arrives_ns = self.schedule.now_ns + self.rng.randint(*_DELAY_NS)
            self._arrives_ns[reader] = max(arrives_ns, self._arrives_ns.get(reader, 0))
            self.schedule.at(self._arrives_ns[reader], partial(self._arrive, reader, said))

    def _arrive(self, reader: str, said: Statement) -> None:
        hear = self._readers.get(reader)
        if hear is not None and self.is_connected(reader):
            hear(said)

    def write_record(self, group: str, record: Record) -> None:
        """Write a group's record; each broker takes it some milliseconds later."""
        self.records[group] = record
        self.writes += 1
        for broker in tuple(self.brokers.values()):
            take = partial(broker.take_record, group, record)
            self.schedule.after(self.rng.randint(*_RECORD_DELAY_NS), take)


class NativeBroker:
    """Pulsar's own limiter at one broker, for all its groups.

    Args:
        name: the broker's, in its lines.
        topic: the topic that it reads and writes.
    """

    def __init__(self, name: str, topic: UsageTopic) -> None:
        self.name = name
        self.table: dict[str, dict[str, Amounts]] = {}
        #: The quotas in force, of messages and bytes per second, by group; None is unlimited.
        self.quotas: dict[str, tuple[int | None, int | None]] = {}
        self._topic = topic
        self._records: dict[str, Record] = {}
        #: Tokens in billionths, by group and unit.
        self._tokens: dict[str, list[int]] = {}
        #: Whether a bucket was empty after the last step.
        self._is_held: dict[str, bool] = {}
        self._filled_ns = topic.schedule.now_ns
        self._used: dict[str, Amounts] = {}
        self._told: dict[str, Amounts] = {}
        self._told_ns = 0
        self._still_until_ns = 0
        self._runs = True
        topic.brokers[name] = self
        topic.join(name, self._hear)
        for group, record in topic.records.items():
            self.take_record(group, record)
        for task in (self._compute, self._report):
            topic.schedule.after(topic.rng.randrange(_INTERVAL_NS), partial(self._repeat, task))

    def stop(self) -> None:
        """Be gone; the others keep its line."""
        self._runs = False
        self._topic.leave(self.name)
        if self._topic.brokers.get(self.name) is self:
            del self._topic.brokers[self.name]

    def stand_still(self, duration_ns: int) -> None:
        """Pass nothing for a while, and do late what is due meanwhile."""
        self._still_until_ns = self._topic.schedule.now_ns + duration_ns

    @property
    def stands_still(self) -> bool:
        """Whether it passes nothing now."""
        return self._topic.schedule.now_ns < self._still_until_ns

    def take_record(self, group: str, record: Record) -> None:
        """Take a record that was written: it is the whole limit until the next interval."""
        self._fill()
        self._records[group] = record
        whole = tuple(None if rate < 0 else rate for rate in record)
        self._apply(group, (whole[0], whole[1]))

    def fits(self, group: str, size: int) -> int | None:
        """Return how many messages of this size may pass now; the one that empties a bucket does.

        None means all that wait.
        """
        if self.stands_still:
            return 0
        self._fill()
        quotas, tokens = self.quotas.get(group), self._tokens.get(group)
        if quotas is None or tokens is None:
            return None
        rooms = [
            -(-tokens[index] // (each * NANOS_PER_SECOND))
            for index, each in enumerate((1, size))
            if quotas[index] is not None
        ]
        return max(0, min(rooms)) if rooms else None

    def take(self, group: str, messages: int, size: int) -> None:
        """Take the tokens of messages that passed."""
        used = self._used.get(group, NOTHING)
        self._used[group] = Amounts(used.messages + messages, used.bytes + messages * size)
        tokens = self._tokens.setdefault(group, [0, 0])
        tokens[0] -= messages * NANOS_PER_SECOND
        tokens[1] -= messages * size * NANOS_PER_SECOND
        quotas = self.quotas.get(group, (None, None))
        self._is_held[group] = any(
            quota is not None and left <= 0 for quota, left in zip(quotas, tokens, strict=True)
        )

    def _hear(self, said: Statement) -> None:
        if self.stands_still:
            self._topic.schedule.at(self._still_until_ns, partial(self._hear, said))
            return
        self.table.setdefault(said.broker, {}).update(said.amounts)

    def _repeat(self, task: Callable[[], None]) -> None:
        if not self._runs:
            return
        self._topic.schedule.after(_INTERVAL_NS, partial(self._repeat, task))
        if self.stands_still:
            self._topic.schedule.at(self._still_until_ns, task)
        else:
            task()

    def _fill(self) -> None:
        now_ns = self._topic.schedule.now_ns
        elapsed_ns, self._filled_ns = now_ns - self._filled_ns, now_ns
        for group, quotas in self.quotas.items():
            tokens = self._tokens[group]
            for index, quota in enumerate(quotas):
                more = tokens[index] + (quota or 0) * elapsed_ns
                # Waiters use tokens as they flow in; the bucket is full only while none waits.
                is_used = self._is_held.get(group) and not self.stands_still
                most = max(tokens[index], (quota or 0) * NANOS_PER_SECOND)
                tokens[index] = more if is_used else min(most, more)

    def _compute(self) -> None:
        self._fill()
        for group, record in self._records.items():
            quotas = self._quota(group, record.messages, 0), self._quota(group, record.bytes, 1)
            self._apply(group, quotas)
        if self._topic.computed is not None:
            self._topic.computed(self)

    def _apply(self, group: str, quotas: tuple[int | None, int | None]) -> None:
        # Waiters used the tokens since the last step, but for those of the last moment.
        is_held = self._is_held.get(group)
        flown = self._tokens.get(group, [0, 0]) if is_held else [0, 0]
        before = self.quotas.get(group, (None, None))
        self._tokens[group] = [
            (quota or 0) * NANOS_PER_SECOND
            + max(0, more)
            - (min(was or 0, quota or 0) * _FORGOTTEN_NS if is_held else 0)
            for quota, was, more in zip(quotas, before, flown, strict=True)
        ]
        self.quotas[group] = quotas

    def _quota(self, group: str, record: int, index: int) -> int | None:
        if record < 0:
            return None
        rows = {name: row.get(group, NOTHING)[index] for name, row in self.table.items()}
        return pip82_limit(record, rows.get(self.name, 0), sum(rows.values()))

    def _report(self) -> None:
        used, self._used = dict.fromkeys(self._records, NOTHING) | self._used, {}
        now_ns = self._topic.schedule.now_ns
        is_old = now_ns - self._told_ns >= _REPORTS_WITHIN * _INTERVAL_NS
        moved = any(_moved(self._told.get(g, NOTHING), u) for g, u in used.items())
        if used and (is_old or moved):
            self._told, self._told_ns = used, now_ns
            named = frozenset(used)
            self._topic.say(self.name, Statement(self.name, used, "", self.name, named=named))


def _moved(before: Amounts, after: Amounts) -> bool:
    return any(
        abs(now - was) * 1000 > _MOVED_PERMILLE * was
        for was, now in zip(before, after, strict=True)
    )

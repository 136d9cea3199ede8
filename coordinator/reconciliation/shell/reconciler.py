"""Read the counters of broker and gate, ask the broker who published the difference, and tell it.

One request reads the counters of all namespaces; the statistics of single topics are asked for only while
a namespace has an unexplained difference, of `INSPECTED_MAX` topics at most, every `_FOUND_FOR_NS`.

The time between readings is that of engine/spacing.py, with ``reconcile_seconds`` and ``reconcile_part``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import structlog

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.insight.model.alarms import AlarmCondition
from coordinator.insight.model.gate_views import StrandedClient
from coordinator.insight.model.reconciliation_views import EscapedTraffic
from coordinator.native.engine.outside import BrokerCounters
from coordinator.ports import Catalogue, Clock, NotFound, PortError
from coordinator.reconciliation.engine.account import Rate
from coordinator.reconciliation.engine.counting import (
    INSPECTED_MAX,
    BrokerBook,
    Increase,
    PublishedCount,
    first_to_inspect,
)
from coordinator.reconciliation.engine.outside import PassedCounters, PublisherLists
from coordinator.reconciliation.engine.reconciliation import (
    Escape,
    Reconciliation,
    ReconciliationState,
)
from coordinator.reconciliation.engine.spacing import Spacing
from coordinator.reconciliation.engine.ways import KnownOrigins, ListedPublisher, WayFinding, find

_COUNTS_PER_STEP: Final = 1_000
"""Counts that are taken before the loop has its turn: about 1 ms."""
_NAMESPACES_INSPECTED_MAX: Final = 4
"""Namespaces whose publishers are asked for after one reading; the others are told without a way."""
_FOUND_FOR_NS: Final = 10 * NANOS_PER_SECOND
_RECORDED_EVERY_NS: Final = 60 * NANOS_PER_SECOND

_log = structlog.get_logger(__name__)


class Reconciler:
    """Reconcile one broker and its gate.

    Args:
        broker: the broker's name.
        counters: the broker's.
        gate: the gate's counters and connections.
        publishers: the broker's lists.
        reconciliation: the accounts.
        surroundings: of the broker.
        clock: monotonic time.
        interval_s: the shortest time from one reading to the next.
        part: the part of the time that readings may take.
        charge: takes the rates by group after each reading; None charges nothing.
        record: takes what escaped, once a minute and at the end, with the time that it covers and the
            present one; None records nothing.
    """

    def __init__(  # noqa: PLR0913  # one per part
        self,
        broker: str,
        counters: BrokerCounters,
        gate: PassedCounters,
        publishers: PublisherLists,
        reconciliation: Reconciliation,
        surroundings: KnownOrigins,
        clock: Clock,
        *,
        interval_s: float,
        part: float,
        charge: Callable[[Mapping[str, Rate]], None] | None = None,
        record: Callable[[Sequence[EscapedTraffic], int, int], None] | None = None,
    ) -> None:
        self._broker = broker
        self._counters = counters
        self._gate = gate
        self._publishers = publishers
        self._reconciliation = reconciliation
        self.surroundings = surroundings
        self._clock = clock
        self._spacing = Spacing(interval_s, part)
        self._charge = charge
        self._record = record
        self._recorded_ns = clock.now_ns()
        self._book = BrokerBook()
        self._error = ""
        #: Namespaces that are not compared.
        self.exempt = reconciliation.exempt
        self._stranded: tuple[StrandedClient, ...] = ()
        self._stranded_ns: int | None = None
        #: The findings of the last seconds, and their times.
        self._found: dict[str, tuple[WayFinding, int]] = {}

    def catalogue_changed(self, catalogue: Catalogue) -> None:
        """Take over which namespaces count against which groups."""
        self._reconciliation.attachments = catalogue.attachments

    def state(self) -> ReconciliationState:
        """Return the present state."""
        accounts = self._reconciliation
        return ReconciliationState(
            is_on=True,
            interval_s=self._spacing.every_s,
            readings=accounts.readings,
            error=self._error,
            reconciled=accounts.reconciled,
            left_out=accounts.left_out,
            charges=self._charge is not None,
            escapes=tuple(accounts.escapes()),
            others=accounts.others,
            uncounted=accounts.uncounted,
            stranded=self._stranded,
        )

    def sightings(self, _now_ns: int) -> Iterator[AlarmCondition]:
        """Yield the conditions for alarms."""
        return self._reconciliation.sightings(self._broker)

    def escapes_of(self, group: str) -> tuple[Escape, ...]:
        """Return the namespaces of a group in which traffic goes round the gate now."""
        return self._reconciliation.namespaces_of(group)

    def rates(self) -> Mapping[str, Rate]:
        """Return the rates that go round the gate now, by group."""
        return self._reconciliation.by_group()

    async def run(self) -> None:
        """Reconcile for ever."""
        try:
            await self._read_for_ever()
        finally:
            self.record()

    async def _read_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                took_s = await self.read()
            except PortError as error:
                if str(error) != self._error:
                    _log.warning("counters cannot be reconciled", reason=str(error))
                self._error = str(error)
                self._spacing.failed()
            else:
                self._error = ""
                self._spacing.succeeded(took_s)
            await asyncio.sleep(max(0.0, began_s + self._spacing.every_s - loop.time()))

    async def read(self) -> float:
        """Take one reading; return how many seconds the counters took.

        Raises:
            PortError: the broker's counters cannot be read.
        """
        began_ns = self._clock.now_ns()
        reading = await self._counters.read()
        counts = reading.topics
        # After the broker's: see account.py.
        totals = await self._gate.published_totals()
        now_ns = self._clock.now_ns()
        self._book.begin()
        for start in range(0, len(counts), _COUNTS_PER_STEP):
            self._book.add(counts[start : start + _COUNTS_PER_STEP])
            await asyncio.sleep(0)
        increases = self._book.end()
        passed = {name: PublishedCount(*found) for name, found in totals.items()}
        took_ns = now_ns - began_ns
        for _ in self._reconciliation.read(
            increases, passed, took_ns=took_ns, now_ns=now_ns, uncounted=reading.uncounted
        ):
            await asyncio.sleep(0)
        await self._explain(increases)
        await self._look_for_stranded()
        if self._charge is not None:
            self._charge(self._reconciliation.by_group())
        if self._clock.now_ns() - self._recorded_ns >= _RECORDED_EVERY_NS:
            self.record()
        return (now_ns - began_ns) / NANOS_PER_SECOND

    async def _look_for_stranded(self) -> None:
        """Find the clients that do not reach the gate though its broker serves their topic."""
        now_ns = self._clock.now_ns()
        if self._stranded_ns is not None and now_ns - self._stranded_ns < _FOUND_FOR_NS:
            return
        self._stranded_ns = now_ns
        found: list[StrandedClient] = []
        try:
            for client in (await self._gate.stranded())[:INSPECTED_MAX]:
                with contextlib.suppress(NotFound):  # another broker's
                    await self._publishers.publishers(client.topic)
                    found.append(client)
        except PortError:  # told by the next reading of the counters, if it goes on
            return
        self._stranded = tuple(found)

    def record(self) -> None:
        """Record what escaped since the last call."""
        if self._record is None:
            return
        now_ns = self._clock.now_ns()
        elapsed_ns, self._recorded_ns = now_ns - self._recorded_ns, now_ns
        self._record(self._reconciliation.to_record(), elapsed_ns, now_ns)

    async def _explain(self, increases: Mapping[str, Increase]) -> None:
        now_ns = self._clock.now_ns()
        self._found = {
            name: found for name, found in self._found.items() if now_ns - found[1] < _FOUND_FOR_NS
        }
        asked = 0
        for namespace in self._reconciliation.suspects():
            if namespace not in self._found and asked < _NAMESPACES_INSPECTED_MAX:
                asked += 1
                finding = await self._inspect(namespace, increases.get(namespace, Increase()))
                self._found[namespace] = finding, now_ns
            finding, _ = self._found.get(namespace, (WayFinding(), now_ns))
            self._reconciliation.tell(namespace, finding, now_ns)

    async def _inspect(self, namespace: str, increase: Increase) -> WayFinding:
        """Return the way that a namespace's publishers show."""
        try:
            gates = await self._gate.published_topics()
            topics = increase.to_inspect(gates)
            if not topics:
                topics = first_to_inspect(await self._publishers.topics(namespace), gates)
            publishers: list[ListedPublisher] = []
            for topic in topics:
                publishers += await self._publishers_of(topic)
            addresses = await self._gate.broker_side_addresses()
        except PortError as error:
            return WayFinding(trouble=str(error))
        return find(publishers, addresses, self.surroundings)

    async def _publishers_of(self, topic: str) -> list[ListedPublisher]:
        try:
            return list(await self._publishers.publishers(topic))
        except NotFound:  # unloaded meanwhile
            return []

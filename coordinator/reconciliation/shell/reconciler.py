"""Read the counters of broker and gate, compare them, and keep what escaped.

One request reads the counters of all namespaces. The time between readings is that of engine/spacing.py,
with ``reconcile_seconds`` and ``reconcile_part``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.insight.model.reconciliation_views import EscapedTraffic, ReconciliationView
from coordinator.native.engine.counting import CounterReading
from coordinator.ports import Catalogue, Clock, PortError
from coordinator.reconciliation.engine.counting import BrokerBook, Row, Volume
from coordinator.reconciliation.engine.reconciliation import Reconciliation, uncounted_view
from coordinator.reconciliation.engine.spacing import Spacing

_COUNTS_PER_STEP: Final = 1_000
"""Counts that are taken before the loop has its turn: about 1 ms."""
_RECORDED_EVERY_NS: Final = 60 * NANOS_PER_SECOND

_log = structlog.get_logger(__name__)


ReadCounters = Callable[[], Awaitable[CounterReading]]
"""Returns the broker's counters of all topics, by subscription; raises BrokerUnreachable and Refused."""

PassedTotals = Callable[[], Awaitable[Mapping[Row, tuple[int, int]]]]
"""Returns the messages and bytes that passed since the gate's start, by namespace and class."""


class Reconciler:
    """Reconcile one broker and its gate.

    Args:
        counters: reads the broker's.
        passed: the gate's counters.
        book: the broker's counters as of the last reading.
        accounts: of all namespaces.
        clock: monotonic time.
        interval_s: the shortest time from one reading to the next.
        part: the part of the time that readings may take.
        record: takes what escaped, once a minute and at the end, with the time that it covers and the
            present one; None records nothing.
    """

    def __init__(
        self,
        counters: ReadCounters,
        passed: PassedTotals,
        book: BrokerBook,
        accounts: Reconciliation,
        clock: Clock,
        *,
        interval_s: float,
        part: float,
        record: Callable[[Sequence[EscapedTraffic], int, int], None] | None = None,
    ) -> None:
        self._read_counters = counters
        self._passed = passed
        self._book = book
        self.accounts = accounts
        self._clock = clock
        self._spacing = Spacing(interval_s, part)
        self._record = record
        self._recorded_ns = clock.now_ns()
        self._error = ""

    def catalogue_changed(self, catalogue: Catalogue) -> None:
        """Take over which namespaces count against which groups."""
        self.accounts.attachments = catalogue.attachments

    def view(self) -> ReconciliationView:
        """Return the present state."""
        accounts = self.accounts
        return ReconciliationView(
            on=True,
            interval_seconds=self._spacing.every_s,
            readings=accounts.readings,
            error=self._error,
            reconciled=accounts.reconciled,
            left_out=accounts.left_out,
            escapes=tuple(accounts.escapes()),
            uncounted=tuple(map(uncounted_view, accounts.uncounted)),
        )

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
        reading = await self._read_counters()
        # After the broker's: see account.py.
        totals = await self._passed()
        now_ns = self._clock.now_ns()
        self._book.begin()
        for start in range(0, len(reading.topics), _COUNTS_PER_STEP):
            self._book.add(reading.topics[start : start + _COUNTS_PER_STEP])
            await asyncio.sleep(0)
        for _ in self.accounts.read(
            self._book.end(),
            {row: Volume(*found) for row, found in totals.items()},
            took_ns=now_ns - began_ns,
            now_ns=now_ns,
            uncounted=reading.uncounted,
        ):
            await asyncio.sleep(0)
        if self._clock.now_ns() - self._recorded_ns >= _RECORDED_EVERY_NS:
            self.record()
        return (now_ns - began_ns) / NANOS_PER_SECOND

    def record(self) -> None:
        """Record what escaped since the last call."""
        if self._record is None:
            return
        now_ns = self._clock.now_ns()
        elapsed_ns, self._recorded_ns = now_ns - self._recorded_ns, now_ns
        self._record(self.accounts.to_record(), elapsed_ns, now_ns)

"""The path of a report between the core and the bus: signed on its way out, verified on its way in.

A received payload passes two checks: its sender (wire/senders.py), and only then its content
(wire/intake.py). A report that passes both goes to the core. Any other is dropped, counted, and logged
once per reason, with the member in whose name it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from coordinator.core.model import NANOS_PER_MILLI, Member, ResourceGroup, UsageReport
from coordinator.ports import Clock
from coordinator.wire import reports
from coordinator.wire.intake import Intake, ReceivedReport
from coordinator.wire.senders import Opened, Senders
from coordinator.wire.signature import Signer

log = structlog.get_logger(__name__)


class Reception:
    """Verify the reports of the bus; see the module's head.

    Args:
        broker: this broker.
        clock: monotonic time.
        received: called with every report that is believed.
        dropped: called with the reason and number of dropped payloads; True if it is the first time.
        own_wanted: whether the own reports that come back are handed on, too.
    """

    def __init__(
        self,
        broker: str,
        clock: Clock,
        *,
        received: Callable[[ReceivedReport], None],
        dropped: Callable[[str, int], bool],
        own_wanted: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._received = received
        self._dropped = dropped
        self._own_wanted = own_wanted
        self._signer = Signer()
        #: The check of the senders.
        self.senders = Senders(broker)
        self._intake = Intake()

    @property
    def public_key(self) -> bytes:
        """Return the key that verifies this sidecar's reports."""
        return self._signer.public_key

    def sign(self, report: UsageReport) -> bytes:
        """Return a report of this sidecar as a signed payload."""
        encoded = reports.encode(report, self._clock.now_ns() // NANOS_PER_MILLI)
        self.senders.sent(report.incarnation, report.sequence, encoded)
        return self._signer.sign(encoded)

    def arrived(self, payload: bytes) -> None:
        """Verify a payload from the bus."""
        try:
            opened = self.senders.open(payload, self._clock.now_ns())
        except reports.BadReport as error:
            self._refuse(error, len(payload))
            return
        if opened is not None:
            self._read(opened)

    def set_members(self, members: Iterable[Member]) -> None:
        """Take over the membership; read the waiting reports of its members."""
        for found in self.senders.set_members(members):
            if isinstance(found, Opened):
                self._read(found)
            else:
                self._refuse(found, 0)

    def set_groups(self, groups: Iterable[ResourceGroup]) -> None:
        """Take over the definitions; read the reports that waited for them."""
        for received in self._intake.set_groups(groups):
            self._received(received)
        self._count_dropped()

    def expire(self) -> None:
        """Drop reports that waited in vain."""
        now_ns = self._clock.now_ns()
        self.senders.expire(now_ns)
        for received in self._intake.expire(now_ns):
            self._received(received)
        self._count_dropped()

    def _read(self, opened: Opened) -> None:
        if opened.broker == self._broker and not self._own_wanted():
            return  # the core has handled it when it was sent
        try:
            received = self._intake.read(opened, self._clock.now_ns())
        except reports.BadReport as error:
            self._refuse(error, opened.size)
            return
        if received is not None:
            self._received(received)

    def _refuse(self, error: reports.BadReport, size: int) -> None:
        if self._dropped(error.reason, 1):
            log.warning("not a usage report", reason=str(error), size=size)

    def _count_dropped(self) -> None:
        for reason, count in (*self.senders.dropped(), *self._intake.dropped()):
            if self._dropped(reason, count):
                log.warning("reports waited in vain", reason=reason)

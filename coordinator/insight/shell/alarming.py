"""Report alarms to a receiver: each once when it begins and once when it is over.

There is no queue of messages. The state that the receiver has acknowledged is kept beside the firing
alarms, and all differences are sent together until they are acknowledged: after `_TELL_S`, and after a
failure twice as long each time up to `_RETRY_MAX_S`. A receiver that was unreachable therefore learns the
present state, not the alarms that came and went meanwhile; nothing is reported twice; and memory is
bounded by the number of alarms.

The member with the lowest name reports the alarms that every sidecar sees. When another member takes over
this task, it reports all firing alarms once more: the former one may have died before reporting, and
receivers know alarms by their labels.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import structlog

from coordinator.core.state import CoordinatorState
from coordinator.insight.model.alarms import Alarm, AlarmKey
from coordinator.insight.model.outside import AlarmReceiver, Notice
from coordinator.insight.shell.sampler import Sampler
from coordinator.ports import PortError

MAX_NOTICES = 100
"""The most alarms in one message; the rest follows in the next."""

_TELL_S = 1.0
_RETRY_MAX_S = 60.0
_NANOS_PER_MILLI = 1_000_000

_log = structlog.get_logger(__name__)


class Alarming:
    """The alarm reports of one sidecar and their acknowledgement.

    Args:
        state: the core.
        watch: the source of firing alarms.
        receiver: the receiver of reports.
    """

    def __init__(self, state: CoordinatorState, watch: Sampler, receiver: AlarmReceiver) -> None:
        self._state = state
        self._watch = watch
        self._receiver = receiver
        self._told: dict[AlarmKey, Notice] = {}
        self._speaks = False
        #: Acknowledged messages, and failed attempts.
        self.delivered = 0
        self.failed = 0

    async def run(self) -> None:
        """Report for ever."""
        pause_s = _TELL_S
        while True:
            await asyncio.sleep(pause_s)
            taken = await self.tell()
            pause_s = _TELL_S if taken else min(_RETRY_MAX_S, 2 * pause_s)

    async def tell(self) -> bool:
        """Report the changes since the last acknowledged report; return whether it was acknowledged."""
        self._look_who_speaks()
        news = self._news()
        while news:
            batch, news = news[:MAX_NOTICES], news[MAX_NOTICES:]
            try:
                await self._receiver.tell(batch)
            except PortError as error:
                self.failed += 1
                _log.warning("alarms not delivered", count=len(batch), reason=str(error))
                return False
            self.delivered += 1
            for notice in batch:
                key = notice.sighting.key
                if notice.ended_ms is None:
                    self._told[key] = notice
                else:
                    self._told.pop(key, None)
        return True

    def _look_who_speaks(self) -> None:
        speaks = min(self._state.members, default=None) == self._state.settings.broker
        if speaks is not self._speaks:
            self._told = {
                key: notice
                for key, notice in self._told.items()
                if not notice.sighting.kind.is_shared
            }
        self._speaks = speaks

    def _news(self) -> list[Notice]:
        firing = {
            key: alarm
            for key, alarm in self._watch.alarms.firing().items()
            if self._speaks or not alarm.sighting.kind.is_shared
        }
        begun = [self._notice(alarm) for key, alarm in firing.items() if key not in self._told]
        now_ms = time.time_ns() // _NANOS_PER_MILLI
        over = [
            replace(notice, ended_ms=now_ms)
            for key, notice in self._told.items()
            if key not in firing
        ]
        return [*begun, *over]

    def _notice(self, alarm: Alarm) -> Notice:
        age_ns = self._watch.now_ns() - alarm.began_ns
        return Notice(alarm.sighting, (time.time_ns() - age_ns) // _NANOS_PER_MILLI)

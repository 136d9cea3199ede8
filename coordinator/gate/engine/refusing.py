"""Refuse the SENDs of one connection that have waited for as long as their limit holds any.

A client takes an answer to a SEND for final only if it has the answers to all earlier ones of that
producer (final_errors.py). So a producer whose first held message is overdue passes nothing more, and no
longer waits for tokens: once the broker has answered its earlier SENDs, every message that is overdue by
then is answered with the error, in order. The messages behind them wait for tokens again. A refused
message is never sent later, and none that was sent is refused: the broker sees the sequence ids rise,
with gaps.

Some messages are held for as long as it takes: chunks, messages that are paid for in part, those of a
client that has no final error, and those of a C++ client that may have given up by itself. Its releases
lose the first message that they wait for if they are refused an earlier one that has timed out, and
crash at the next answer (seen with 4.2.0), which a broker that stands still must not bring about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinator.core.handling import SEND_TIMEOUT_MILLIS
from coordinator.core.model import NANOS_PER_MILLI
from coordinator.gate.engine.producer import Producer
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.protocol.own_frames import CHECKSUM, send_error_frame
from coordinator.gate.protocol.refusals import RefusalReason, Refusals

_CHECKSUM_AGE_MAX_NS: Final = SEND_TIMEOUT_MILLIS * NANOS_PER_MILLI // 2
"""The oldest message that a C++ client is refused: half of its send timeout by default."""

_LOOK_AGAIN_NS: Final = 100 * NANOS_PER_MILLI
"""The time after which a message that must be held has perhaps made way for one that need not."""


class OverdueSends:
    """The producers of one connection whose first held message is overdue.

    Args:
        queue: in which they wait.
        answer: takes a frame for the client.
        count_held: takes a share of the publish buffer and the change of the bytes held.
        released: called when something was answered or passed.
        refusals: counts what is refused.
        final_error: returns the client's final error; None if it has none.
    """

    def __init__(
        self,
        queue: AdmissionQueue,
        *,
        answer: Callable[[bytes], None],
        count_held: Callable[[str, int], None],
        released: Callable[[], None],
        refusals: Refusals,
        final_error: Callable[[], int | None],
    ) -> None:
        self._queue = queue
        self._answer = answer
        self._count_held = count_held
        self._released = released
        self._refusals = refusals
        self._final_error = final_error
        #: Those that wait for the broker's answers, with the limiter that held them.
        self._waiting: dict[Producer, PublishLimiter] = {}

    def __contains__(self, producer: Producer) -> bool:
        return producer in self._waiting

    def add(self, producer: Producer, now_ns: int) -> None:
        """Take a producer out of the queue, to refuse what is overdue as soon as that can be."""
        limiter, error = producer.waits_for, self._final_error()
        if not isinstance(limiter, PublishLimiter) or error is None:
            return
        if not _may_be_refused(producer, error, now_ns):
            self._queue.overdue.plan(producer, now_ns, not_before_ns=now_ns + _LOOK_AGAIN_NS)
            return
        self._queue.withdraw(producer, now_ns)
        self._waiting[producer] = limiter
        self._refuse(producer, limiter, now_ns)

    def forget(self, producer: Producer) -> bool:
        """Drop a producer: it is closed, or counts for other groups; tell whether it was here."""
        return self._waiting.pop(producer, None) is not None

    def answered(self, now_ns: int) -> None:
        """Refuse what is overdue of the producers whose earlier SENDs are all answered by now."""
        for producer, limiter in tuple(self._waiting.items()) if self._waiting else ():
            self._refuse(producer, limiter, now_ns)

    def _refuse(self, producer: Producer, limiter: PublishLimiter, now_ns: int) -> None:
        error, patience_ns = self._final_error(), limiter.patience_ns
        if producer.unanswered:
            return
        del self._waiting[producer]
        while (
            error is not None
            and patience_ns is not None
            and producer.held
            and _may_be_refused(producer, error, now_ns)
            and now_ns - producer.held_since_ns >= patience_ns
        ):
            self._refuse_first(producer, limiter, error)
        if producer.held:
            self._queue.wait(producer, now_ns)
        self._released()

    def _refuse_first(self, producer: Producer, limiter: PublishLimiter, error: int) -> None:
        frame_bytes, cost = producer.refuse_first()
        self._count_held(producer.buffer_share, -frame_bytes)
        limiter.refuse(cost.messages, cost.size)
        self._refusals.count(RefusalReason.RATE_LIMIT, producer.topic)
        text = f"resource group {limiter.counter.group} is over its limit: send less, or later"
        self._answer(send_error_frame(producer.producer_id, cost.sequence_id, error, text))


def _may_be_refused(producer: Producer, error: int, now_ns: int) -> bool:
    age_ns = now_ns - producer.held_since_ns
    return producer.can_be_refused and (error != CHECKSUM or age_ns <= _CHECKSUM_AGE_MAX_NS)

"""What the broker sends, as far as it tells the gate something about its participants.

Receipts and errors answer SENDs, so that a drain knows what it still waits for. Success and error answer
requests, which can end a participant; so can the broker by itself. Messages are counted on dispatch, and
each uses up permits of its consumer.
All of it passes to the client as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from coordinator.gate import commands
from coordinator.gate.consumer import Consumer, Entries
from coordinator.gate.frames import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    ERROR,
    MESSAGE,
    PRODUCER_SUCCESS,
    SEND_ERROR,
    SEND_RECEIPT,
    SUCCESS,
)
from coordinator.gate.producer import Producer
from coordinator.gate.roster import Roster
from coordinator.gate.runs import RunHandler
from coordinator.gate.stream import Decision, Handler, Verdict

if TYPE_CHECKING:
    from coordinator.gate._runs import Run

# An enum member as a global: one look-up less per frame.
_PASSES: Final = Verdict.PASSES


class BrokerAnswers:
    """Handlers for the frames that a broker sends.

    Args:
        roster: the participants of the connection.
        end: called with a participant that the broker ended.
        shape: called with a limited consumer and the entries that pass to it.
    """

    def __init__(
        self,
        roster: Roster,
        end: Callable[[Producer | Consumer], object],
        shape: Callable[[Consumer, Entries], None],
    ) -> None:
        self._roster = roster
        self._end = end
        self._shape = shape

    def handlers(self) -> dict[int, Handler]:
        """By command type."""
        return {
            SEND_RECEIPT: self._on_send_receipt,
            SEND_ERROR: self._on_send_error,
            MESSAGE: self._on_message,
            SUCCESS: self._on_success,
            PRODUCER_SUCCESS: self._on_producer_success,
            ERROR: self._on_error,
            CLOSE_PRODUCER: self._on_producer_closed,
            CLOSE_CONSUMER: self._on_consumer_closed,
        }

    def run_handlers(self) -> dict[int, RunHandler]:
        """By command type, of those that come in runs."""
        return {SEND_RECEIPT: self._on_send_receipts, MESSAGE: self._on_messages}

    def _on_send_receipts(self, run: Run) -> bool:
        producer = self._roster.producers.get(run.owner)
        if producer is not None:
            answered = min(run.frames, producer.unanswered)
            producer.unanswered -= answered
            self._roster.unanswered -= answered
        return True

    def _on_messages(self, run: Run) -> bool:
        consumer = self._roster.consumers.get(run.owner)
        if consumer is not None:
            entries = Entries(run.frames, run.messages, run.size, run.most_messages, run.largest)
            self._passes(consumer, entries, run.messages)
        return True

    def _passes(self, consumer: Consumer, entries: Entries, permits: int) -> None:
        # Whether it is limited or not: the permits must be known when a limit comes.
        consumer.permits -= permits
        namespace = consumer.namespace
        namespace.messages += entries.messages
        namespace.bytes += entries.size
        if consumer.limited:
            self._shape(consumer, entries)
            return
        for limiter in consumer.limiters:
            counter = limiter.counter
            counter.messages += entries.messages
            counter.bytes += entries.size

    def _on_send_receipt(
        self, data: bytes, start: int, command_end: int, _frame_end: int
    ) -> Verdict:
        return self._answered(commands.read_first_id(data, start + 8, command_end, SEND_RECEIPT))

    def _on_send_error(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Verdict:
        return self._answered(commands.read_first_id(data, start + 8, command_end, SEND_ERROR))

    def _answered(self, producer_id: int) -> Verdict:
        producer = self._roster.producers.get(producer_id)
        if producer is not None and producer.unanswered:
            producer.unanswered -= 1
            self._roster.unanswered -= 1
        return _PASSES

    def _on_message(self, data: bytes, start: int, command_end: int, frame_end: int) -> Decision:
        consumer_id, unacknowledged = commands.read_message(data, start + 8, command_end)
        consumer = self._roster.consumers.get(consumer_id)
        if consumer is None:
            return _PASSES
        metadata, metadata_end = commands.metadata_bounds(data, command_end, frame_end)
        if metadata_end > len(data):
            return metadata_end
        messages = commands.read_messages_in_batch(data, metadata, metadata_end)
        size = frame_end - command_end
        permits = messages if unacknowledged is None else min(messages, unacknowledged)
        self._passes(consumer, Entries(1, messages, size, messages, size), permits)
        return _PASSES

    def _on_success(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Verdict:
        request_id = commands.read_first_id(data, start + 8, command_end, SUCCESS)
        return self._request_answered(request_id, succeeded=True)

    def _on_error(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Verdict:
        request_id = commands.read_first_id(data, start + 8, command_end, ERROR)
        return self._request_answered(request_id, succeeded=False)

    def _on_producer_success(
        self, data: bytes, start: int, command_end: int, _frame_end: int
    ) -> Verdict:
        request_id, ready = commands.read_producer_success(data, start + 8, command_end)
        return self._request_answered(request_id, succeeded=True) if ready else _PASSES

    def _request_answered(self, request_id: int, *, succeeded: bool) -> Verdict:
        participant = self._roster.answered(request_id, succeeded=succeeded)
        if participant is not None:
            self._end(participant)
        return _PASSES

    def _on_producer_closed(
        self, data: bytes, start: int, command_end: int, _frame_end: int
    ) -> Verdict:
        producer_id, _ = commands.read_close(data, start + 8, command_end, CLOSE_PRODUCER)
        producer = self._roster.producers.get(producer_id)
        if producer is not None:
            self._end(producer)
        return _PASSES

    def _on_consumer_closed(
        self, data: bytes, start: int, command_end: int, _frame_end: int
    ) -> Verdict:
        consumer_id, _ = commands.read_close(data, start + 8, command_end, CLOSE_CONSUMER)
        consumer = self._roster.consumers.get(consumer_id)
        if consumer is not None:
            self._end(consumer)
        return _PASSES

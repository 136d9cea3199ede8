"""Handle the broker's frames that tell the gate about the participants of a connection.

Receipts and errors answer SENDs, so that a drain knows which answers are missing. Success and error
answer requests that open and close participants; the broker can close a participant by itself, too. The
gate counts messages on dispatch, and each message uses up permits of its consumer.

Every frame passes to the client unchanged, with these exceptions. Messages to a consumer that does not
exist (the client has just closed it) are dropped: a client ignores them, and the gate must not let a
message pass that it does not count. Messages that exceed a limit by too much are held (deliveries.py).
Answers to the gate's own requests are for no client. Addresses become those of gates (addresses.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from coordinator.gate.engine.addresses import BrokerAddresses
from coordinator.gate.engine.consumer import Consumer, Entries
from coordinator.gate.engine.consumer_pace import ALLOWED_MAX, PER_MESSAGE
from coordinator.gate.engine.deliveries import Deliveries
from coordinator.gate.engine.participants import Participants
from coordinator.gate.engine.producer import Producer
from coordinator.gate.protocol import commands, payload
from coordinator.gate.protocol.frames import (
    ACTIVE_CONSUMER_CHANGE,
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    ERROR,
    MESSAGE,
    PRODUCER_SUCCESS,
    REACHED_END_OF_TOPIC,
    SEND_ERROR,
    SEND_RECEIPT,
    SUCCESS,
    MalformedFrame,
    read_fields,
)
from coordinator.gate.protocol.refusals import RefusalReason, Refusals
from coordinator.gate.protocol.runs import RunHandler
from coordinator.gate.protocol.stream import WORK_BYTES, Decision, FrameVerdict, Handler

if TYPE_CHECKING:
    from coordinator.gate.protocol._runs import Run

# An enum member as a global: one look-up less per frame.
_PASSES: Final = FrameVerdict.PASSES

_RESPONSES: Final[Mapping[int, int]] = {
    26: 1,  # CONSUMER_STATS_RESPONSE
    30: 2,  # GET_LAST_MESSAGE_ID_RESPONSE
    40: 1,  # GET_OR_CREATE_SCHEMA_RESPONSE
    **dict.fromkeys((51, 53, 55, 57, 59, 61, 63), 1),  # transactions
    65: 1,  # WATCH_TOPIC_LIST_SUCCESS
    74: 1,  # SCALABLE_TOPIC_SUBSCRIBE_RESPONSE
}
"""The field of the request id, by type, of answers to requests about no participant."""

_ERROR_CODES: Final[Mapping[int, int]] = {
    40: 2,  # GET_OR_CREATE_SCHEMA_RESPONSE
    53: 4,  # ADD_PARTITION_TO_TXN_RESPONSE
    55: 4,  # ADD_SUBSCRIPTION_TO_TXN_RESPONSE
    59: 4,  # END_TXN_ON_PARTITION_RESPONSE
    61: 4,  # END_TXN_ON_SUBSCRIPTION_RESPONSE
}
"""The field of the error, by type, of answers to requests that have the broker store something."""

_ERROR_OF_ERROR: Final = 2
"""The field of the error in ERROR."""

_STORED_NOTHING: Final = frozenset((3, 4, 6, 7, 8, 11, 14, 17, 18))
"""The errors that a broker finds before it stores anything: who the client is or what it may, the name or
place of the topic, a backlog, too many requests, or a schema that does not fit. It finds others later,
such as ProducerBusy and ConsumerBusy (ServerCnx.handleProducer, handleSubscribe)."""

_LOOKUP_RESPONSES: Final[Mapping[int, int]] = {
    33: 1,  # GET_TOPICS_OF_NAMESPACE_RESPONSE
    35: 1,  # GET_SCHEMA_RESPONSE
}
"""The field of the request id, by type, of answers of the lookup service."""


class BrokerAnswers:
    """Handlers for the frames that a broker sends.

    Args:
        participants: the participants of the connection.
        addresses: judges the addresses that frames name.
        refusals: counts what does not pass.
        deliveries: hold entries of limited consumers.
        end: called with a participant that the broker ended.
        shape: called with a limited consumer and the entries that pass to it.
        may_have_stored: told of a request that failed, perhaps after the broker stored what it brings.
        now_ns: the time of the call that is being handled.
        charge: takes the decisions that the reading of metadata counts as.
    """

    def __init__(  # noqa: PLR0913 - each one explained above
        self,
        participants: Participants,
        addresses: BrokerAddresses,
        refusals: Refusals,
        deliveries: Deliveries,
        end: Callable[[Producer | Consumer], object],
        shape: Callable[[Consumer, Entries], None],
        may_have_stored: Callable[[int], None],
        now_ns: Callable[[], int],
        *,
        charge: Callable[[int], None],
    ) -> None:
        self._participants = participants
        self._addresses = addresses
        self._refusals = refusals
        self._deliveries = deliveries
        self._end = end
        self._shape = shape
        self._may_have_stored = may_have_stored
        self._now_ns = now_ns
        self._charge = charge

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers by command type."""
        handlers: dict[int, Handler] = {
            SEND_RECEIPT: self._on_send_answered,
            SEND_ERROR: self._on_send_answered,
            MESSAGE: self._on_message,
            SUCCESS: self._on_success,
            PRODUCER_SUCCESS: self._on_producer_success,
            ERROR: self._on_error,
            CLOSE_PRODUCER: self._on_producer_closed,
            CLOSE_CONSUMER: self._on_consumer_closed,
            ACTIVE_CONSUMER_CHANGE: self._on_news,
            REACHED_END_OF_TOPIC: self._on_news,
        }
        handlers |= self._addresses.handlers()
        handlers |= {kind: self._on_response(kind, field) for kind, field in _RESPONSES.items()}
        return handlers | {
            kind: self._on_lookup_response(field) for kind, field in _LOOKUP_RESPONSES.items()
        }

    def run_handlers(self) -> dict[int, RunHandler]:
        """Return the handlers by command type, for commands that come in runs."""
        return {SEND_RECEIPT: self._on_send_receipts, MESSAGE: self._on_messages}

    def _on_send_receipts(self, run: Run) -> bool:
        producer = self._participants.producers.get(run.owner)
        if producer is not None:
            answered = min(run.frames, producer.unanswered)
            producer.unanswered -= answered
            self._participants.unanswered -= answered
        return True

    def _on_messages(self, run: Run) -> bool:
        consumer = self._participants.consumers.get(run.owner)
        if consumer is None:
            return False
        entries = Entries(run.frames, run.messages, run.size, run.most_messages, run.largest)
        if consumer.limited and self._deliveries.must_wait(consumer, entries):
            return False
        self._passes(consumer, entries, run.messages)
        return True

    def _passes(self, consumer: Consumer, entries: Entries, permits: int) -> None:
        # Also for a consumer without a limit: the permits must be known when a limit is set.
        consumer.permits -= permits
        consumer.allowed = min(consumer.allowed + PER_MESSAGE * entries.messages, ALLOWED_MAX)
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

    def _on_send_answered(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> FrameVerdict:
        producer = self._participants.producers.get(commands.read_first_id(data, body, command_end))
        if producer is not None and producer.unanswered:
            producer.unanswered -= 1
            self._participants.unanswered -= 1
        return _PASSES

    def _on_message(
        self, data: bytes, start: int, body: int, command_end: int, frame_end: int
    ) -> Decision:
        consumer_id, unacknowledged = commands.read_delivery(data, body, command_end)
        consumer = self._participants.consumers.get(consumer_id)
        if consumer is None:
            self._refusals.count(RefusalReason.UNASKED_MESSAGE, f"consumer {consumer_id}")
            return FrameVerdict.DISCARD
        size = frame_end - command_end
        try:
            metadata, metadata_end = payload.metadata_bounds(data, command_end, frame_end)
        except MalformedFrame:  # what some client has published; the consumer is not to blame
            messages = permits = max(1, size // payload.MESSAGE_SIZE_MIN)
        else:
            if metadata_end > len(data):
                return metadata_end
            self._charge((metadata_end - metadata) // WORK_BYTES)
            messages, permits = payload.read_delivered(data, metadata, metadata_end, frame_end)
        if unacknowledged is not None:
            permits = min(permits, unacknowledged)
        entries = Entries(1, messages, size, messages, size)
        if consumer.limited and self._deliveries.must_wait(consumer, entries):
            return self._deliveries.hold(consumer, data, start, frame_end, entries, permits)
        self._passes(consumer, entries, permits)
        return _PASSES

    def _on_news(
        self, data: bytes, start: int, body: int, command_end: int, frame_end: int
    ) -> Decision:
        consumer_id = commands.read_first_id(data, body, command_end)
        consumer = self._participants.consumers.get(consumer_id)
        if consumer is None:
            return _PASSES
        return self._deliveries.hold_news(consumer, data, start, frame_end)

    def _on_success(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> FrameVerdict:
        request_id = commands.read_first_id(data, body, command_end)
        ended = self._participants.succeeded(request_id, self._now_ns())
        return self._answered(request_id, ended)

    def _on_error(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> FrameVerdict:
        fields = read_fields(data, body, command_end)
        request_id = commands.number_of(fields, 1)
        if fields.get(_ERROR_OF_ERROR) not in _STORED_NOTHING:
            self._may_have_stored(request_id)
        return self._answered(request_id, self._participants.failed(request_id))

    def _answered(self, request_id: int, ended: Producer | Consumer | None) -> FrameVerdict:
        """End a participant, and keep from the client what answers a request of the gate's own."""
        verdict = self._ended(ended)
        return FrameVerdict.DISCARD if self._participants.take_own(request_id) else verdict

    def _on_producer_success(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> FrameVerdict:
        request_id, ready = commands.read_producer_success(data, body, command_end)
        return self._succeeded(request_id) if ready else _PASSES

    def _on_response(self, kind: int, field: int) -> Handler:
        of_error = _ERROR_CODES.get(kind)

        def handle(data: bytes, _start: int, body: int, end: int, _frame_end: int) -> FrameVerdict:
            fields = read_fields(data, body, end)
            request_id = commands.number_of(fields, field)
            if of_error in fields:
                return self._ended(self._participants.refused(request_id))
            return self._succeeded(request_id)

        return handle

    def _on_lookup_response(self, field: int) -> Handler:
        def handle(data: bytes, _start: int, body: int, end: int, _frame_end: int) -> FrameVerdict:
            request_id = commands.read_number(data, body, end, field)
            return self._ended(self._participants.looked_up(request_id))

        return handle

    def _succeeded(self, request_id: int) -> FrameVerdict:
        return self._ended(self._participants.succeeded(request_id, self._now_ns()))

    def _ended(self, participant: Producer | Consumer | None) -> FrameVerdict:
        if participant is not None:
            self._end(participant)
        return _PASSES

    def _on_producer_closed(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        producer_id = commands.read_first_id(data, body, command_end)
        self._ended(self._participants.closed_producer(producer_id))
        return self._addresses.without_internal(CLOSE_PRODUCER, data, body, command_end)

    def _on_consumer_closed(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        consumer_id = commands.read_first_id(data, body, command_end)
        self._ended(self._participants.closed_consumer(consumer_id))
        return self._addresses.without_internal(CLOSE_CONSUMER, data, body, command_end)

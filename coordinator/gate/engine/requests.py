"""Handle the frames of a connected client that concern the gate.

A SEND passes if its producer holds nothing and the limiters admit it; otherwise it is held. PRODUCER,
SUBSCRIBE and their closes change the participants of the connection. FLOW gives permits, which the
gate passes on in slices for a limited consumer. Of all other requests the gate keeps the ids,
so that it matches each answer to its request.

The gate refuses a frame that does not fit: it ends the connection (`MalformedFrame`), answers the request
with the broker's own error, or, where clients expect no answer, drops the frame as the broker would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from coordinator.core.topics import TopicName
from coordinator.gate.engine import command_order, plain_requests
from coordinator.gate.engine.consumer import Consumer
from coordinator.gate.engine.consumer_pace import ID_BYTES
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.hold_buffer import HoldBuffer
from coordinator.gate.engine.producer import Cost, Producer
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.namespaces import NamespaceCounter
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.gate.protocol import commands, lookups, payload, rewriting, schema
from coordinator.gate.protocol.commands import ProducerCommand, SubscribeCommand
from coordinator.gate.protocol.frames import (
    ACK,
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    FLOW,
    KNOWN_TYPES,
    LOOKUP,
    PARTITIONED_METADATA,
    PRODUCER,
    REDELIVER,
    SEND,
    SUBSCRIBE,
    UNSUBSCRIBE,
    FrameFault,
    MalformedFrame,
    read_message,
)
from coordinator.gate.protocol.own_frames import (
    INVALID_TOPIC_NAME,
    NOT_ALLOWED,
    QUOTA_EXCEEDED,
    error_frame,
)
from coordinator.gate.protocol.refusals import RefusalReason, Refusals, RequestRefused
from coordinator.gate.protocol.runs import RunHandler, find_frame
from coordinator.gate.protocol.stream import (
    WORK_BYTES,
    WORK_FIELDS,
    Decision,
    FrameVerdict,
    Handler,
)

if TYPE_CHECKING:
    from coordinator.gate.protocol._runs import Run

_TOO_OFTEN: Final = "Subscribe limited by subscribe rate limit per consumer."

_UNKNOWN_TYPES_MAX: Final = 64
"""Types of later releases that are counted one by one; all further types are counted as 0."""

_ANY_SIZE: Final = 0x7FFFFFFF
"""The stream has judged the size of a frame that it hands on."""

_RESERVED: Final = (
    "sidecars and brokers alone publish there, at the brokers' own listener (bus_listener_name)"
)

_Passing = tuple[Sequence[PublishLimiter], NamespaceCounter, int, bool]
"""The limiters and the counter of a SEND, its messages, and whether it is exempt."""

# An enum member as a global: one look-up less per frame.
_PASSES: Final = FrameVerdict.PASSES


class ClientRequests:
    """Handlers for the frames that a client sends.

    Args:
        holding: the participants of the connection, and their held frames.
        groups: tells which topics are closed, and how often consumers may subscribe.
        queue: admits messages and serves held ones.
        counters: counts what happens on all connections.
        refusals: counts the refusals of this connection.
        vouches: whether the gate tells the broker who the client is.
        answer: takes a frame for the client, to be sent between two others.
        host: tells the client's address.
        replicates: given a producer, tells the cluster that it replicates from; None if it does not.
        charge: takes the decisions that the reading of metadata counts as.
    """

    #: Reads a SEND, if it is a usual one whose messages are due at once or count no other way.
    _find_frame = staticmethod(find_frame)

    def __init__(  # noqa: PLR0913 - keyword-only, each one explained above
        self,
        holding: HoldBuffer,
        groups: GroupTable,
        queue: AdmissionQueue,
        counters: GateCounters,
        *,
        refusals: Refusals,
        vouches: bool,
        answer: Callable[[bytes], None],
        host: Callable[[], str],
        replicates: Callable[[ProducerCommand], str | None],
        charge: Callable[[int], None],
    ) -> None:
        self._holding = holding
        self._groups = groups
        self._queue = queue
        self._counters = counters
        self._refusals = refusals
        self._vouches = vouches
        self._answer = answer
        self._host = host
        self._replicates = replicates
        self._charge = charge
        self._participants = holding.participants
        self._producers = holding.participants.producers
        self._consumers = holding.participants.consumers
        #: Whether the gate drops SENDs, because the connection is about to end.
        self.draining = False
        #: What was charged for the last frame that passed, if that was a SEND: part of it may be missing.
        self._passing: _Passing | None = None

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers by command type."""
        handlers: dict[int, Handler] = {
            SEND: self._on_send,
            PRODUCER: self._on_producer,
            CLOSE_PRODUCER: self._on_close_producer,
            SUBSCRIBE: self._on_subscribe,
            CLOSE_CONSUMER: self._on_close_consumer,
            UNSUBSCRIBE: self._on_unsubscribe,
            FLOW: self._on_flow,
            ACK: self._on_ack,
            REDELIVER: self._on_redeliver,
            LOOKUP: self._on_lookup,
            PARTITIONED_METADATA: self._on_partitioned_metadata,
        }
        participants = self._participants
        handlers |= plain_requests.handlers(participants.ask)
        in_order = command_order.in_order(handlers, self._holding)
        return in_order | plain_requests.lookup_handlers(participants.look_up)

    def run_handlers(self) -> dict[int, RunHandler]:
        """Return the handlers by command type, for commands that come in runs."""
        return {SEND: self._on_sends, ACK: self._on_acks}

    def refuse_unknown(self, kind: int) -> None:
        """Let a command without a handler pass; count it if it is of a later release.

        Raises:
            MalformedFrame: only a broker sends such a command.
        """
        if kind in KNOWN_TYPES:
            raise MalformedFrame(FrameFault.WRONG_SIDE, f"type {kind}")
        self._passing = None
        counts = self._counters.unknown_commands
        counts[kind if kind in counts or len(counts) < _UNKNOWN_TYPES_MAX else 0] += 1

    def _on_lookup(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        return lookups.rewrite_lookup(data, body, command_end, vouches=self._vouches)

    def _on_partitioned_metadata(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        return lookups.rewrite_partitioned_metadata(data, body, command_end, vouches=self._vouches)

    def _on_send(
        self, data: bytes, start: int, body: int, command_end: int, frame_end: int
    ) -> Decision:
        if self.draining:
            return FrameVerdict.DISCARD
        command = commands.read_send(data, body, command_end)
        producer = self._producers.get(command.producer_id)
        if producer is None:
            return self._drop_publish(command.producer_id)
        size, sequence_id = frame_end - command_end, command.sequence_id
        published = self._read_published(data, start, command_end, frame_end, command.messages)
        if isinstance(published, int):
            claimed = Cost(command.messages, size, sequence_id, command.is_chunk)
            return self._hold_early(producer, data, start, frame_end, claimed) or published
        cost = Cost(published.messages, size, sequence_id, command.is_chunk)
        return self._admit(producer, producer.limiters, published, cost, data, start, frame_end)

    def _hold_early(
        self, producer: Producer, data: bytes, start: int, frame_end: int, cost: Cost
    ) -> Decision | None:
        """Hold a publish whose metadata has yet to arrive, if what its command says of it must wait."""
        holding, limiters = self._holding, producer.limiters
        must_wait = self._queue.first_against(limiters, cost.messages, cost.size, holding.now_ns)
        if not producer.held and must_wait is None:
            return None
        return holding.hold(producer, limiters, data, start, frame_end, cost)

    def _read_published(
        self, data: bytes, start: int, command_end: int, frame_end: int, claimed: int
    ) -> payload.Published | int:
        """Return what a SEND publishes, or the position up to which bytes must arrive before that."""
        usual = self._find_frame(data, start, _ANY_SIZE)
        if usual is not None:
            self._charge(usual.fields // WORK_FIELDS)
            return payload.Published(usual.messages, None, 0)
        metadata, metadata_end = payload.metadata_bounds(
            data, command_end, frame_end, from_client=True
        )
        if metadata_end > len(data):
            return metadata_end
        self._charge((metadata_end - metadata) // WORK_BYTES)
        return payload.read_published(data, metadata, metadata_end, frame_end, claimed)

    def _admit(
        self,
        producer: Producer,
        limiters: Sequence[PublishLimiter],
        published: payload.Published,
        cost: Cost,
        data: bytes,
        start: int,
        frame_end: int,
    ) -> Decision:
        """Let a publish pass, or hold it."""
        holding = self._holding
        if not holding.has_room_for_requests(1):
            return holding.stop(ThrottleReason.PENDING_REQUESTS)
        messages, size = published.messages, cost.size
        if producer.held or not self._queue.admit(limiters, messages, size, holding.now_ns):
            return holding.hold(producer, limiters, data, start, frame_end, cost)
        self._passed(producer, limiters, 1, messages, size)
        holding.tell_debts(producer, messages, size)
        return _PASSES

    def _drop_publish(self, producer_id: int) -> Decision:
        """Drop a publish that crosses with the broker's close of its producer, as the broker does.

        Raises:
            MalformedFrame: there has been no such producer.
        """
        if not self._participants.was_closed((ProducerCommand, producer_id)):
            raise MalformedFrame(FrameFault.UNKNOWN_PRODUCER, f"producer {producer_id}")
        self._refusals.count(RefusalReason.CLOSED_PRODUCER, f"producer {producer_id}")
        return FrameVerdict.DISCARD

    def _on_sends(self, run: Run) -> bool:
        """Let a run of SENDs pass; False if any of them needs a decision of its own."""
        producer = self._producers.get(run.owner)
        if producer is None or producer.held or self.draining:
            return False
        frames, messages, size = run.frames, run.messages, run.size
        if not self._holding.has_room_for_requests(frames):
            return False
        if not self._queue.admit_run(producer.limiters, messages, size, self._holding.now_ns):
            return False
        self._passed(producer, producer.limiters, frames, messages, size)
        return True

    def give_back(self, missing: int) -> None:
        """Uncount the last SEND, whose last bytes have not arrived and never will.

        Of several that passed as a run the messages stay counted, as it is not known how many the last
        one has: a run takes what has been saved up, and nothing in advance.
        """
        passing, self._passing = self._passing, None
        if passing is None or not missing:
            return
        limiters, namespace, messages, exempt = passing
        namespace.messages -= messages
        namespace.bytes -= missing
        for limiter in limiters:
            limiter.counter.messages -= messages
            limiter.counter.bytes -= missing
            self._queue.serve_limiter(limiter, self._holding.now_ns)
        if exempt:
            self._counters.replicated_messages -= messages
            self._counters.replicated_bytes -= missing

    def _passed(
        self,
        producer: Producer,
        limiters: Sequence[PublishLimiter],
        frames: int,
        messages: int,
        size: int,
    ) -> None:
        namespace = producer.namespace
        self._passing = limiters, namespace, messages if frames == 1 else 0, producer.exempt
        producer.unanswered += frames
        self._participants.unanswered += frames
        namespace.messages += messages
        namespace.bytes += size
        if producer.exempt:
            self._counters.replicated_messages += messages
            self._counters.replicated_bytes += size

    def _on_producer(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        try:
            command = commands.read_producer(data, body, command_end)
            self._check_producer(command)
            former = self._producers.get(command.producer_id)
            self._participants.open(command, remote=self._replicates(command))
        except RequestRefused as refusal:
            return self._refuse(refusal)
        if former is not None:
            self._holding.drop_held(former)  # the client sends again every SEND without a receipt
        return _PASSES

    def _check_producer(self, command: ProducerCommand) -> None:
        name = self._check_topic("PRODUCER", command.topic, command.request_id)
        if name is not None and str(name.whole) in self._groups.reserved_topics:
            text = f"PRODUCER.topic {command.topic!r}: {_RESERVED}"
            reason = RefusalReason.RESERVED_TOPIC
            raise RequestRefused(command.request_id, NOT_ALLOWED, text, reason)
        text = self._groups.scopes.refusal_of(command.topic)
        if text:
            reason = RefusalReason.BACKLOG_QUOTA
            raise RequestRefused(command.request_id, QUOTA_EXCEEDED, text, reason)

    def _check_topic(self, command: str, topic: str, request_id: int) -> TopicName | None:
        name = TopicName.parse(topic)
        if name is None and not self._groups.unknown_topics.pass_:
            text = f"{command}.topic {topic!r} is no topic name: use persistent://tenant/namespace/topic"
            raise RequestRefused(request_id, INVALID_TOPIC_NAME, text, RefusalReason.TOPIC_NAME)
        return name

    def _on_subscribe(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        try:
            command = commands.read_subscribe(data, body, command_end)
            self._check_topic("SUBSCRIBE", command.topic, command.request_id)
            self._check_rate(command)
            self._participants.open(command)
        except RequestRefused as refusal:
            return self._refuse(refusal)
        return _PASSES

    def _check_rate(self, command: SubscribeCommand) -> None:
        consumer_key = (self._host(), command.consumer_name, command.consumer_id)
        if not self._groups.subscribe_rate.admits(consumer_key, self._holding.now_ns):
            self._counters.refused_subscribes += 1
            reason = RefusalReason.SUBSCRIBE_RATE
            raise RequestRefused(command.request_id, NOT_ALLOWED, _TOO_OFTEN, reason)

    def _refuse(self, refusal: RequestRefused) -> FrameVerdict:
        """Answer a request in the broker's place."""
        self._refusals.count(refusal.reason, str(refusal))
        self._answer(error_frame(refusal.request_id, refusal.error, str(refusal)))
        return FrameVerdict.DISCARD

    def _on_close_producer(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        fields = read_message(data, body, command_end, schema.CLOSE)
        producer_id, request_id = commands.number_of(fields, 1), commands.number_of(fields, 2)
        self._participants.close((ProducerCommand, producer_id), request_id)
        producer = self._producers.get(producer_id)
        if producer is not None:
            self._holding.drop_held(producer)
        return _PASSES

    def _on_close_consumer(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        fields = read_message(data, body, command_end, schema.CLOSE)
        consumer_id, request_id = commands.number_of(fields, 1), commands.number_of(fields, 2)
        self._participants.close((SubscribeCommand, consumer_id), request_id)
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            self._holding.deliveries.drop(consumer)
            consumer.withheld = 0  # the broker may not hear of a consumer that it has closed
        return _PASSES

    def _on_unsubscribe(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        fields = read_message(data, body, command_end, schema.UNSUBSCRIBE)
        self._participants.unsubscribe(commands.number_of(fields, 1), commands.number_of(fields, 2))
        return _PASSES

    def _on_flow(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        consumer_id, permits = commands.read_flow(data, body, command_end)
        consumer = self._consumers.get(consumer_id)
        if consumer is None:
            if not self._participants.permit_early(consumer_id, permits):
                self._refuse_consumer(consumer_id)
            return FrameVerdict.DISCARD
        if not permits:
            return FrameVerdict.DISCARD
        if not self._is_called_for(consumer, 1):
            return self._holding.stop(ThrottleReason.CONSUMER_COMMANDS)
        if not consumer.limited:
            consumer.permits += permits
            return _PASSES
        consumer.withhold(permits)
        consumer.ask(self._queue, self._holding.now_ns)
        return FrameVerdict.DISCARD

    def _on_acks(self, run: Run) -> bool:
        consumer = self._consumers.get(run.owner)
        if consumer is None or consumer.allowed < run.frames:
            return False
        consumer.allowed -= run.frames
        return True

    def _on_ack(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        return self._if_consumer(ACK, schema.ACK, data, body, command_end)[1]

    def _on_redeliver(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        consumer, decision = self._if_consumer(REDELIVER, schema.REDELIVER, data, body, command_end)
        # Brokers look at the ids for Shared and Key_Shared alone, and send all again without them.
        if consumer is not None and consumer.held:
            is_short = command_end - body <= rewriting.LARGE
            if not consumer.shared or (
                is_short and 2 not in read_message(data, body, command_end, schema.REDELIVER)
            ):
                self._holding.deliveries.redelivered(consumer)
        return decision

    def _if_consumer(
        self, kind: int, message: schema.Message, data: bytes, body: int, end: int
    ) -> tuple[Consumer | None, Decision]:
        """Let a command pass if its consumer exists; the broker would drop it otherwise, too.

        The id is looked at before the rest, which may be long. Returned is the consumer with the
        decision, None if the command does not pass.
        """
        consumer_id = commands.leading_id(data, body, end)
        if consumer_id is not None and consumer_id not in self._consumers:
            return None, self._refuse_consumer(consumer_id)
        decision: Decision = _PASSES
        if end - body > rewriting.LARGE:
            consumer_id, ids, decision = rewriting.rewrite(kind, data, body, end)
        else:
            consumer_id = commands.number_of(read_message(data, body, end, message), 1)
            ids = 1 + (end - body) // ID_BYTES
        consumer = self._consumers.get(consumer_id)
        if consumer is None:
            return None, self._refuse_consumer(consumer_id)
        if not self._is_called_for(consumer, ids):
            return None, self._holding.stop(ThrottleReason.CONSUMER_COMMANDS)
        return consumer, decision

    def _is_called_for(self, consumer: Consumer, ids: int) -> bool:
        """Whether messages call for a command of this many ids, or the connection may send it anyway."""
        holding = self._holding
        return holding.consumer_pace.admits(consumer, ids, holding.now_ns)

    def _refuse_consumer(self, consumer_id: int) -> FrameVerdict:
        was_there = self._participants.was_closed((SubscribeCommand, consumer_id))
        reason = RefusalReason.CLOSED_CONSUMER if was_there else RefusalReason.UNKNOWN_CONSUMER
        self._refusals.count(reason, f"consumer {consumer_id}")
        return FrameVerdict.DISCARD

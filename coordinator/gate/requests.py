"""What a client sends, as far as it concerns the gate.

A SEND passes if nothing of its producer is held and the limiters admit it; otherwise it is held.
PRODUCER, SUBSCRIBE and their ends say who is on the connection. FLOW gives permits, which the broker of a
limited consumer gets bit by bit. Everything that is not looked at here passes: the broker decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from coordinator.gate import commands
from coordinator.gate.admission import AdmissionQueue
from coordinator.gate.frames import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    CONNECT,
    FLOW,
    PRODUCER,
    SEND,
    SUBSCRIBE,
    UNSUBSCRIBE,
    MalformedFrame,
)
from coordinator.gate.groups import GroupTable
from coordinator.gate.holding import Holding
from coordinator.gate.introduction import Client, Introduction, NotWelcome
from coordinator.gate.own_frames import NO_REQUEST, NOT_ALLOWED, QUOTA_EXCEEDED, error_frame
from coordinator.gate.producer import Cost, Producer
from coordinator.gate.runs import RunHandler
from coordinator.gate.stream import Decision, Handler, Verdict
from coordinator.gate.tally import Tally
from coordinator.gate.throttle import ThrottleReason

if TYPE_CHECKING:
    from coordinator.gate._runs import Run

_TOO_OFTEN: Final = "Subscribe limited by subscribe rate limit per consumer."

# An enum member as a global: one look-up less per frame.
_PASSES: Final = Verdict.PASSES


class ClientRequests:
    """Handlers for the frames that a client sends.

    Args:
        holding: the participants of the connection, and what is held of them.
        groups: tells which topics are closed, and how often consumers may subscribe.
        queue: admits messages and calls held ones up.
        tally: counts what happens on all connections.
        introduction: what a CONNECT may say.
        answer: takes a frame for the client, to be sent between two others.
    """

    def __init__(
        self,
        holding: Holding,
        groups: GroupTable,
        queue: AdmissionQueue,
        tally: Tally,
        introduction: Introduction,
        answer: Callable[[bytes], None],
    ) -> None:
        self._holding = holding
        self._groups = groups
        self._queue = queue
        self._tally = tally
        self._introduction = introduction
        self._answer = answer
        self._roster = holding.roster
        self._producers = holding.roster.producers
        self._consumers = holding.roster.consumers
        #: Who the client is, as far as the gate can tell.
        self.client = Client()
        #: Whether SENDs are swallowed: the connection is about to end.
        self.draining = False

    def handlers(self) -> dict[int, Handler]:
        """By command type."""
        return {
            CONNECT: self._on_connect,
            SEND: self._on_send if self._groups.delayed is None else self._on_send_or_delayed,
            PRODUCER: self._on_producer,
            CLOSE_PRODUCER: self._on_close_producer,
            SUBSCRIBE: self._on_subscribe,
            CLOSE_CONSUMER: self._on_close_consumer,
            UNSUBSCRIBE: self._on_unsubscribe,
            FLOW: self._on_flow,
        }

    def run_handlers(self) -> dict[int, RunHandler]:
        """By command type, of those that come in runs."""
        return {SEND: self._on_sends}

    def _on_connect(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Decision:
        command = commands.read_connect(data, start + 8, command_end)
        try:
            return self._introduction.judge(command, self.client)
        except NotWelcome as refusal:
            self._answer(error_frame(NO_REQUEST, refusal.error, str(refusal)))
            raise MalformedFrame(refusal.fault, refusal.detail) from None

    def _on_send_or_delayed(
        self, data: bytes, start: int, command_end: int, frame_end: int
    ) -> Decision:
        """A SEND where delayed messages count apart: its metadata says which it is."""
        metadata, metadata_end = commands.metadata_bounds(data, command_end, frame_end)
        if metadata_end > len(data):
            return metadata_end
        delivery = commands.read_delivery(data, metadata, metadata_end)
        decision = self._on_send(
            data, start, command_end, frame_end, is_delayed=delivery is not None
        )
        if delivery is not None and decision in (Verdict.PASSES, Verdict.TAKEN):
            producer_id, messages = commands.read_send(data, start + 8, command_end)
            self._delayed_came(producer_id, messages, delivery)
        return decision

    def _delayed_came(self, producer_id: int, messages: int, delivery: tuple[int, int]) -> None:
        producer, delayed = self._producers.get(producer_id), self._groups.delayed
        if producer is not None and not producer.exempt and delayed is not None:
            deliver_at, published = delivery
            delayed.came(producer.topic, messages, is_due=deliver_at <= published)

    def _on_send(
        self,
        data: bytes,
        start: int,
        command_end: int,
        frame_end: int,
        *,
        is_delayed: bool = False,
    ) -> Decision:
        producer_id, messages = commands.read_send(data, start + 8, command_end)
        if self.draining:
            return Verdict.DISCARD
        holding = self._holding
        if not holding.has_room_for_requests(1):
            return holding.stop(ThrottleReason.PENDING_REQUESTS)
        producer = self._producers.get(producer_id)
        if producer is None:
            return _PASSES  # the broker ignores what it has just closed, and objects to the rest
        size = frame_end - command_end
        limiters = producer.limiters if is_delayed else producer.prompt_limiters
        if producer.held or not self._queue.admit(limiters, messages, size, holding.now_ns):
            cost = Cost(messages, size, is_delayed)
            return holding.hold(producer, data, start, frame_end, cost)
        self._passed(producer, 1, messages, size)
        return _PASSES

    def _on_sends(self, run: Run) -> bool:
        """A run of SENDs; each is decided on its own if any of them may not simply pass."""
        producer = self._producers.get(run.owner)
        if producer is None or producer.held or self.draining:
            return False
        frames, messages, size = run.frames, run.messages, run.size
        if not self._holding.has_room_for_requests(frames):
            return False
        if not self._queue.admit_run(
            producer.prompt_limiters, messages, size, self._holding.now_ns
        ):
            return False
        self._passed(producer, frames, messages, size)
        return True

    def _passed(self, producer: Producer, frames: int, messages: int, size: int) -> None:
        producer.unanswered += frames
        self._roster.unanswered += frames
        namespace = producer.namespace
        namespace.messages += messages
        namespace.bytes += size
        if producer.exempt:
            self._tally.replicated_messages += messages
            self._tally.replicated_bytes += size

    def _on_producer(self, data: bytes, start: int, command_end: int, frame_end: int) -> Decision:
        command = commands.read_producer(data, start + 8, command_end)
        refusal = self._groups.scopes.refusal_of(command.topic)
        if refusal:
            self._answer(error_frame(command.request_id, QUOTA_EXCEEDED, refusal))
            return Verdict.DISCARD
        former = self._producers.get(command.producer_id)
        decision: Decision = _PASSES
        if former is not None:
            if frame_end > len(data):
                return frame_end
            # The client begins anew and sends again what has no receipt. Should a CLOSE_PRODUCER
            # have waited, it goes first.
            self._holding.end(former)
            decision = data[start:frame_end]
        self._roster.open_producer(command, self._holding.now_ns)
        return decision

    def _on_close_producer(
        self, data: bytes, start: int, command_end: int, frame_end: int
    ) -> Decision:
        producer_id, request_id = commands.read_close(data, start + 8, command_end, CLOSE_PRODUCER)
        producer = self._producers.get(producer_id)
        if producer is None:
            return _PASSES
        decision: Decision = _PASSES
        if producer.held:
            decision = self._holding.hold(producer, data, start, frame_end, None)
        self._roster.closing(producer, request_id)
        return decision

    def _on_subscribe(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Decision:
        command = commands.read_subscribe(data, start + 8, command_end)
        consumer_key = (self.client.host, command.consumer_name, command.consumer_id)
        if not self._groups.subscribe_rate.admits(consumer_key, self._holding.now_ns):
            self._tally.refused_subscribes += 1
            self._answer(error_frame(command.request_id, NOT_ALLOWED, _TOO_OFTEN))
            return Verdict.DISCARD
        former = self._consumers.get(command.consumer_id)
        if former is not None:
            self._holding.end(former)
        self._roster.open_consumer(command, self._holding.now_ns)
        return _PASSES

    def _on_close_consumer(
        self, data: bytes, start: int, command_end: int, _frame_end: int
    ) -> Decision:
        consumer_id, request_id = commands.read_close(data, start + 8, command_end, CLOSE_CONSUMER)
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            self._queue.withdraw(consumer, self._holding.now_ns)
            consumer.withheld = 0  # the broker may not hear of a consumer that it has closed
            self._roster.closing(consumer, request_id)
        return _PASSES

    def _on_unsubscribe(
        self, data: bytes, start: int, command_end: int, _frame_end: int
    ) -> Decision:
        consumer_id, request_id = commands.read_close(data, start + 8, command_end, UNSUBSCRIBE)
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            self._roster.unsubscribing(consumer, request_id)
        return _PASSES

    def _on_flow(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Decision:
        consumer_id, permits = commands.read_flow(data, start + 8, command_end)
        consumer = self._consumers.get(consumer_id)
        if consumer is None or not permits:
            return _PASSES
        if not consumer.limited:
            consumer.permits += permits
            return _PASSES
        consumer.withhold(permits)
        consumer.ask(self._queue, self._holding.now_ns)
        return Verdict.DISCARD

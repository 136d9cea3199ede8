"""Hold SENDs that wait for tokens, and withhold permits, for one connection.

* **SENDs** that the limits refuse are held, and so is every later SEND of their producer. Order within a
  producer is therefore the order of arrival.
* **Held bytes are bounded** per connection and, by the limit that is waited for, on all of them together
  (publish_buffer.py), the memory that holding a frame takes beside its bytes included; and so are SENDs
  without an answer. See ``throttle``. A large SEND takes its room before the rest of it is read, as soon
  as it is known to wait; of what else must arrive in full, a large command or very long metadata, what
  has arrived counts. A frame that does not fit is not decoded, and the client is read no further
  until half of each exceeded bound is free. While the client owes the broker an answer to AUTH_CHALLENGE,
  twice as much is held, to get at the answer behind it.
* **A topic may be closed to publishes** for a time (its backlog exceeds its quota): they are held, or
  answered with the error that clients know for it.
* **SENDs that have waited for as long as their limit holds any** are refused; see ``OverdueSends``.
* **The held SENDs of a producer that ends** are dropped, as soon as its client asks to close it, and what
  was paid of them is given back. The client fails what has no receipt when it closes; sent later, it
  would be published although its sender was told otherwise (apache/pulsar#23761).
* **Commands that have the broker store something else**, schemas and markers of transactions, are paid
  for, too, and wait in an order of their own; see ``StoringCommands``.
* **Commands of consumers** that no messages call for are paced; see ``ConsumerPace``.
* **Permits** of a limited consumer are withheld and passed on by frames of our own; see ``Consumer``.
* **Entries** that a limit gives no credit for are held on their way to the consumer; see ``Deliveries``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordinator.core.model import MonitoringClass
from coordinator.gate.engine.consumer import Consumer, Entries
from coordinator.gate.engine.consumer_pace import ConsumerPace
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.deliveries import Deliveries
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.engine.participants import Participants
from coordinator.gate.engine.producer import Cost, Producer
from coordinator.gate.engine.refusing import OverdueSends
from coordinator.gate.engine.storing import StoringCommands
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.metering import TOLD_NS, Advance, MeteredLimiter
from coordinator.gate.limits.publish_buffer import COMMANDS, PublishBuffer, Reservation
from coordinator.gate.limits.throttle import Throttle, ThrottleBounds, ThrottleReason
from coordinator.gate.protocol.commands import ProducerCommand
from coordinator.gate.protocol.contents import Storing
from coordinator.gate.protocol.own_frames import (
    NO_REQUEST,
    QUOTA_EXCEEDED,
    close_consumer_frame,
    flow_frame,
    send_error_frame,
)
from coordinator.gate.protocol.refusals import RefusalReason, Refusals
from coordinator.gate.protocol.stream import HEAD_FREE, FrameVerdict


class HoldBuffer:
    """Holds the SENDs and permits of one connection that the limits do not admit yet.

    Args:
        groups: resolves topics.
        queue: admits messages and permits and serves those that wait.
        counters: counts what happens on all connections.
        send: takes a frame for the broker, to be sent between two others.
        answer: the same for the client.
        released: called when the queue released something of this connection.
        bounds: the bounds of this connection.
        buffer: the held bytes of all connections.
        refusals: counts what is refused.
        producer_type: makes the producers.
        is_challenged: whether the client has to answer the broker, which ends the connection if it does
            not.
        final_error: returns the error to a SEND that the client takes for final; None if it has none.
        exempted: told of a producer that counts against no group, once the broker has accepted it.
        indebted: told of a limit that is taken in advance, and what took it.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, each one explained above
        self,
        groups: GroupTable,
        queue: AdmissionQueue,
        counters: GateCounters,
        *,
        send: Callable[[bytes], None],
        answer: Callable[[bytes], None],
        released: Callable[[], None],
        bounds: ThrottleBounds,
        buffer: PublishBuffer,
        refusals: Refusals,
        producer_type: type[Producer],
        is_challenged: Callable[[], bool],
        final_error: Callable[[], int | None],
        exempted: Callable[[ProducerCommand], None],
        indebted: Callable[[MeteredLimiter, Advance], None],
    ) -> None:
        self._groups = groups
        self._queue = queue
        self._counters = counters
        self._send = send
        self._answer = answer
        self._released = released
        self._bounds = bounds
        self._buffer = buffer
        self._refusals = refusals
        self._is_challenged = is_challenged
        self._indebted = indebted
        self.overdue = OverdueSends(
            queue,
            answer=answer,
            count_held=self._count_held,
            released=released,
            refusals=refusals,
            final_error=final_error,
        )
        #: The time of the call that is being handled.
        self.now_ns = 0
        self.deliveries = Deliveries(
            queue=queue,
            counters=counters,
            buffer=buffer,
            bytes_max=bounds.held_bytes_max,
            answer=answer,
            passed=self.tell_debts,
            close=self._close_consumer,
            released=released,
            now_ns=lambda: self.now_ns,
        )
        self.participants = Participants(
            groups,
            producer_type=producer_type,
            participants_max=bounds.participants_max,
            forward=self._forward,
            overdue=self.overdue.add,
            grant=self._grant,
            deliver=self.deliveries.pass_on,
            permitted=self._ask,
            exempted=exempted,
            settled=lambda request_id, done: self._storing.answered(request_id, stored=done),
            client_of=queue.client_of,
        )
        self._storing = StoringCommands(
            groups,
            queue,
            self.participants,
            send=self._pass_command,
            count_held=self._count_held,
            now_ns=lambda: self.now_ns,
        )
        self.consumer_pace = ConsumerPace()
        self.throttle = Throttle(counters.throttles)
        #: Bytes in the held queues of all producers, and of a frame that is arriving.
        self.held_bytes = 0
        self._unfinished_bytes = 0
        #: How many of them are those of a SEND that is arriving, and in which share.
        self._arriving = Reservation(self._count_held)

    def has_room_for_requests(self, frames: int) -> bool:
        """Return whether the broker may get this many more SENDs without an answer."""
        pending_max = self._bounds.pending_requests_max
        return pending_max is None or self.participants.unanswered + frames <= pending_max

    def hold(
        self,
        producer: Producer,
        limiters: Sequence[PublishLimiter],
        data: bytes,
        start: int,
        frame_end: int,
        cost: Cost,
    ) -> FrameVerdict | int:
        """Hold a SEND that these limiters do not admit, if there is room for it."""
        refusal = producer.refusal
        if refusal:
            self._refuse(producer, cost, refusal)
            return FrameVerdict.DISCARD
        has_arrived = frame_end <= len(data)
        if not has_arrived and frame_end - start <= HEAD_FREE:
            return frame_end
        frame_size = frame_end - start + HELD_FRAME_OVERHEAD
        self._count_by_limit(producer, limiters, cost)
        if not self._arriving.size and not self._has_room(producer.buffer_share, frame_size):
            return FrameVerdict.STOP
        if not has_arrived:
            self._arriving.keep(frame_size, producer.buffer_share)
            return frame_end
        producer.hold(data[start:frame_end], cost, self.now_ns)
        self._count_held(producer.buffer_share, frame_size)
        self._arriving.keep(0)
        if producer.waits_for is None and producer not in self.overdue:
            self._queue.wait(producer, self.now_ns)
            if producer.held:
                self.throttle.count(producer.reason)
        return FrameVerdict.TAKEN

    def _count_by_limit(
        self, producer: Producer, limiters: Sequence[PublishLimiter], cost: Cost
    ) -> None:
        """Count what a producer holds in the share of the limit that it waits for, or would wait for."""
        limiter = producer.waits_for
        if limiter is None and not producer.held:
            queue = self._queue
            limiter = queue.first_against(limiters, cost.messages, cost.size, self.now_ns)
        if limiter is not None and limiter.buffer_share != producer.buffer_share:
            self._move_held(producer, limiter.buffer_share)

    def _move_held(self, producer: Producer, share: str) -> None:
        if self._buffer.move(producer.buffer_share, share, producer.held_bytes):
            producer.buffer_share = share

    def must_wait(self, storing: Storing) -> bool:
        """Return whether a command is to be paid for, or waits behind one that is."""
        return self._storing.is_due(storing)

    def has_room_for_command(self, size: int) -> bool:
        """Return whether a command of this size may be held; stop reading if not."""
        return self._has_room(COMMANDS, size + HELD_FRAME_OVERHEAD)

    def hold_command(self, frame: bytes, storing: Storing) -> bool:
        """Hold a command until what it has the broker store is paid for; tell whether it is."""
        passes = self._storing.hold(frame, storing)
        if not passes and self._storing.waits_for is not None:
            self.throttle.count(self._storing.waits_for.reason)
        return passes

    def may_have_stored(self, request_id: int) -> None:
        """Take an error that may come after the broker has stored what the request brings."""
        self._storing.may_have_stored(request_id)

    def has_room_for_unfinished(self, size: int) -> bool:
        """Return whether this much of an unfinished frame may be kept; stop reading if not."""
        if self._arriving.size:
            return True
        size += HELD_FRAME_OVERHEAD
        held = self.held_bytes - self._unfinished_bytes
        if held and held + size > self._held_bytes_max:
            self.stop(ThrottleReason.HELD_BYTES)
            return False
        if not self._buffer.has_room_for_unfinished(self._released, size):
            self._buffer.when_relieved_of_unfinished(self._released)
            self.stop(ThrottleReason.PUBLISH_BUFFER)
            return False
        return True

    def count_unfinished(self, size: int) -> None:
        """Count what has arrived of the awaited frame; 0 ends the count of the last one.

        A SEND that has its room counts with all that it will be, and not here.
        """
        if not size:
            self._arriving.keep(0)
        taken = size + HELD_FRAME_OVERHEAD if size and not self._arriving.size else 0
        if taken != self._unfinished_bytes:
            self.held_bytes += taken - self._unfinished_bytes
            self._unfinished_bytes = taken
            self._buffer.count_unfinished(self._released, taken)

    def _has_room(self, share: str, size: int) -> bool:
        """Return whether a whole frame of this size may be held in a share; stop reading if not."""
        held = self.held_bytes - self._unfinished_bytes
        if held and held + size > self._held_bytes_max:
            self.stop(ThrottleReason.HELD_BYTES)
            return False
        if not self._buffer.has_room(share, size):
            self._buffer.when_relieved(self._released, share, size)
            self.stop(ThrottleReason.PUBLISH_BUFFER)
            return False
        return True

    def stop(self, reason: ThrottleReason) -> FrameVerdict:
        """Read the client no further."""
        self._counters.pauses += 1
        self.throttle.count(reason)
        self.throttle.pausing.add(reason)
        return FrameVerdict.STOP

    def may_resume(self) -> bool:
        """Return whether the client may be read again, because every reason against it is gone."""
        self.throttle.pausing -= {r for r in self.throttle.pausing if self._is_over(r)}
        return not self.throttle.pausing

    def _is_over(self, reason: ThrottleReason) -> bool:
        """Return whether half of a bound is free again."""
        if reason is ThrottleReason.HELD_BYTES:
            return self.held_bytes - self._unfinished_bytes <= self._held_bytes_max // 2
        if reason is ThrottleReason.PUBLISH_BUFFER:
            return self._buffer.lets_go_on(self._released)
        if reason is ThrottleReason.CONSUMER_COMMANDS:
            return self.consumer_pace.has_some(self.now_ns)
        pending_max = self._bounds.pending_requests_max
        return pending_max is None or self.participants.unanswered <= pending_max // 2

    def shape(self, consumer: Consumer, entries: Entries) -> None:
        """Count entries that pass to a limited consumer, and ask for its next permits."""
        cost_less, cost_more = consumer.passed(entries, self.now_ns)
        if cost_more:
            self.tell_debts(consumer, entries.most_messages, entries.largest)
        consumer.ask(self._queue, self.now_ns)
        if cost_less:
            for limiter in consumer.limiters:
                self._queue.serve_limiter(limiter, self.now_ns)

    def set_role(self, role: str) -> None:
        """Share the turns of this role, and count for its groups, from now on; what waits does, too."""
        for participant in self.participants:
            self._queue.withdraw(participant, self.now_ns)
        self.participants.set_role(role)
        self.reattach()

    def reattach(self) -> None:
        """Resolve the groups of all participants again; those that wait, wait for the new groups."""
        self._buffer.forget(self._released)  # what has no room may be for another limit now
        role = self.participants.role
        self._storing.reattach()
        for consumer in self.participants.consumers.values():
            groups = self.participants.groups_of(consumer, self.now_ns)
            if not consumer.counts_for(groups):
                self._queue.withdraw(consumer, self.now_ns)
            consumer.attach(groups)
            consumer.count_for(
                self._groups.namespace(consumer.topic, MonitoringClass.DISPATCH, role)
            )
            consumer.ask(self._queue, self.now_ns)
            if consumer.held:
                self.deliveries.count_by_limit(consumer)
        for producer in self.participants.producers.values():
            groups = self.participants.groups_of(producer, self.now_ns)
            counter = self._groups.namespace(producer.topic, MonitoringClass.PUBLISH, role)
            if not producer.counts_for(groups):
                self._queue.withdraw(producer, self.now_ns)
                self.overdue.forget(producer)
                producer.attach(groups)
            producer.count_for(counter)
            if producer.held and producer.refusal:
                self._refuse_held(producer)
            elif producer.held:
                self._wait_again(producer)

    def _wait_again(self, producer: Producer) -> None:
        """Have a producer wait that was withdrawn from the queue."""
        waits_for = producer.waits_for
        if waits_for is None and producer not in self.overdue:
            self._queue.wait(producer, self.now_ns)
            if producer.waits_for is not None:
                self._move_held(producer, producer.waits_for.buffer_share)

    def end(self, participant: Producer | Consumer) -> None:
        """Remove a participant and drop its held frames."""
        if isinstance(participant, Producer):
            self.drop_held(participant)
        else:
            self.deliveries.drop(participant)
        self.participants.remove(participant)

    def _close_consumer(self, consumer: Consumer) -> None:
        """Close a consumer at the broker, and for the client as a broker would; it subscribes again."""
        request_id = self.participants.close_by_gate(consumer)
        self._send(close_consumer_frame(consumer.consumer_id, request_id))
        self._answer(close_consumer_frame(consumer.consumer_id, NO_REQUEST))
        self._refusals.count(RefusalReason.HELD_DELIVERIES, consumer.topic)
        self.end(consumer)

    def drop_held(self, producer: Producer) -> None:
        """Drop held SENDs."""
        self._queue.withdraw(producer, self.now_ns)
        self.overdue.forget(producer)
        self._count_held(producer.buffer_share, -producer.held_bytes)
        self._counters.dropped_frames += len(producer.held)
        producer.drop_held()

    def close(self) -> None:
        """Remove all participants, because the connection is closed."""
        for producer in tuple(self.participants.producers.values()):
            self.end(producer)
        for consumer in tuple(self.participants.consumers.values()):
            self.end(consumer)
        self._storing.close()
        self.deliveries.arriving.keep(0)
        self._buffer.forget(self._released)
        self.count_unfinished(0)

    def _refuse(self, producer: Producer, cost: Cost, reason: str) -> None:
        """Answer a SEND with an error."""
        self._counters.refused_publishes += 1
        self._refusals.count(RefusalReason.BACKLOG_QUOTA, producer.topic)
        self._answer(
            send_error_frame(producer.producer_id, cost.sequence_id, QUOTA_EXCEEDED, reason)
        )

    def _refuse_held(self, producer: Producer) -> None:
        """Answer all held SENDs with errors; no later frame may be answered before them."""
        refusal = producer.refusal
        for held in producer.held:
            self._refuse(producer, held.cost, refusal)
        self.drop_held(producer)

    @property
    def _held_bytes_max(self) -> int:
        return self._bounds.held_bytes_max * (2 if self._is_challenged() else 1)

    def _count_held(self, share: str, size: int) -> None:
        self.held_bytes += size
        self._buffer.count(share, size)

    def _ask(self, consumer: Consumer) -> None:
        consumer.ask(self._queue, self.now_ns)

    def tell_debts(self, participant: Producer | Consumer, messages: int, size: int) -> None:
        """Tell who made a debt of what has just passed, if that is much."""
        for limiter in participant.limiters:
            owed_ns = limiter.debt_ns
            if owed_ns >= TOLD_NS:
                role, topic = self.participants.role, participant.topic
                self._indebted(limiter, Advance(role, topic, messages, size, owed_ns))

    def _forward(self, producer: Producer, frame: bytes, cost: Cost) -> None:
        self._count_held(producer.buffer_share, -len(frame) - HELD_FRAME_OVERHEAD)
        self.participants.unanswered += 1
        if producer.exempt:
            self._counters.replicated_messages += cost.messages
            self._counters.replicated_bytes += cost.size
        self.tell_debts(producer, cost.messages, cost.size)
        self._send(frame)
        self._released()

    def _pass_command(self, frame: bytes) -> None:
        self._send(frame)
        self._released()

    def _grant(self, consumer_id: int, permits: int) -> None:
        self._send(flow_frame(consumer_id, permits))
        self._released()

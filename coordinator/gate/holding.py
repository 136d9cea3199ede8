"""What is held of one connection: SENDs that wait for tokens, and permits that are withheld.

* **SENDs** that were refused are held, and so is everything that their producer sends after them, its
  CLOSE_PRODUCER included. Order within a producer is therefore the order of arrival.
* **Held bytes are bounded** per connection and on all of them together, and so are SENDs without an
  answer; see ``throttle``. What does not fit is not decoded, and the client is read no further until half
  of each bound that was reached is free. While the client owes the broker an answer to AUTH_CHALLENGE,
  twice as much is held, to get at the answer behind it.
* **A topic may be closed to publishes** for a time (its backlog exceeds its quota): they are held, or
  answered with the error that clients know for it.
* **What is held of a producer that ends** is dropped: it would be an error at the broker, and the client,
  which has no receipt, sends it again. The commands that waited behind it go to the broker.
* **Permits** of a limited consumer are withheld and passed on by frames of our own; see ``Consumer``.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.model import MonitoringClass
from coordinator.gate.admission import AdmissionQueue
from coordinator.gate.commands import read_sequence
from coordinator.gate.consumer import Consumer, Entries
from coordinator.gate.groups import GroupTable
from coordinator.gate.own_frames import QUOTA_EXCEEDED, flow_frame, send_error_frame
from coordinator.gate.producer import Cost, Producer
from coordinator.gate.roster import Roster
from coordinator.gate.stream import Verdict
from coordinator.gate.tally import Tally
from coordinator.gate.throttle import Bounds, PublishBuffer, Throttle, ThrottleReason


class Holding:
    """Holds back what the participants of one connection may not have yet.

    Args:
        groups: resolves topics.
        queue: admits messages and permits and calls up those who wait.
        tally: counts what happens on all connections.
        send: takes a frame for the broker, to be sent between two others.
        answer: the same for the client.
        released: called when the queue released something of this connection.
        bounds: what is bounded for this connection.
        buffer: what is held on all connections.
        replicator_prefix: names that begin so belong to geo-replication, which is exempt.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, each one explained above
        self,
        groups: GroupTable,
        queue: AdmissionQueue,
        tally: Tally,
        *,
        send: Callable[[bytes], None],
        answer: Callable[[bytes], None],
        released: Callable[[], None],
        bounds: Bounds,
        buffer: PublishBuffer,
        replicator_prefix: str,
    ) -> None:
        self._groups = groups
        self._queue = queue
        self._tally = tally
        self._send = send
        self._answer = answer
        self._released = released
        self._bounds = bounds
        self._buffer = buffer
        self.roster = Roster(groups, replicator_prefix, self._forward, self._grant)
        self.throttle = Throttle(tally.throttles)
        #: The time of the call that is being handled.
        self.now_ns = 0
        #: Bytes in the held queues of all producers.
        self.held_bytes = 0
        #: Whether the client has to answer the broker, which ends the connection if it does not.
        self.is_challenged = False

    def has_room_for_requests(self, frames: int) -> bool:
        """Whether the broker may get so many more SENDs, or has as many to answer as it may have."""
        pending_max = self._bounds.pending_requests_max
        return pending_max is None or self.roster.unanswered + frames <= pending_max

    def hold(
        self, producer: Producer, data: bytes, start: int, frame_end: int, cost: Cost | None
    ) -> Verdict | int:
        """Keep a frame back, if there is room for it; a command that is no SEND costs nothing."""
        refusal = producer.refusal
        if refusal and cost is not None:
            self._refuse(producer, data, start, refusal)
            return Verdict.DISCARD
        if frame_end > len(data):
            return frame_end
        frame_size = frame_end - start
        if self.held_bytes and self.held_bytes + frame_size > self._held_bytes_max:
            return self.stop(ThrottleReason.HELD_BYTES)
        if not self._buffer.has_room(frame_size):
            self._buffer.when_relieved(self._released)
            return self.stop(ThrottleReason.PUBLISH_BUFFER)
        producer.hold(data[start:frame_end], cost, self.now_ns)
        self._count_held(frame_size)
        if producer.waits_for is None:
            self._queue.wait(producer, self.now_ns)
            if producer.held:
                self.throttle.count(producer.reason)
        return Verdict.TAKEN

    def stop(self, reason: ThrottleReason) -> Verdict:
        """Read the client no further."""
        self._tally.pauses += 1
        self.throttle.count(reason)
        self.throttle.pausing.add(reason)
        return Verdict.STOP

    def may_resume(self) -> bool:
        """Whether the client may be read again: every reason against it is gone."""
        self.throttle.pausing -= {r for r in self.throttle.pausing if self._is_over(r)}
        return not self.throttle.pausing

    def _is_over(self, reason: ThrottleReason) -> bool:
        """Whether half of a bound is free again."""
        if reason is ThrottleReason.HELD_BYTES:
            return self.held_bytes <= self._held_bytes_max // 2
        if reason is ThrottleReason.PUBLISH_BUFFER:
            return self._buffer.is_relieved
        pending_max = self._bounds.pending_requests_max
        return pending_max is None or self.roster.unanswered <= pending_max // 2

    def shape(self, consumer: Consumer, entries: Entries) -> None:
        """Entries pass to a limited consumer, which may need permits for the next ones."""
        cost_less = consumer.passed(entries, self.now_ns)
        consumer.ask(self._queue, self.now_ns)
        if cost_less:
            for limiter in consumer.limiters:
                self._queue.serve_limiter(limiter, self.now_ns)

    def reattach(self) -> None:
        """Look up everybody's groups again; who waits, waits for the new ones."""
        for consumer in self.roster.consumers.values():
            groups = self._groups.resolve(consumer.topic, self.now_ns)
            if not consumer.counts_for(groups):
                self._queue.withdraw(consumer, self.now_ns)
            consumer.attach(groups)
            consumer.count_for(self._groups.namespace(consumer.topic, MonitoringClass.DISPATCH))
            consumer.ask(self._queue, self.now_ns)
        for producer in self.roster.producers.values():
            groups = self._groups.resolve(producer.topic, self.now_ns, publishing=True)
            if not producer.counts_for(groups):
                self._queue.withdraw(producer, self.now_ns)
                producer.attach(groups)
                producer.count_for(self._groups.namespace(producer.topic, MonitoringClass.PUBLISH))
                if producer.held and producer.refusal:
                    self._refuse_held(producer)
                elif producer.held:
                    self._queue.wait(producer, self.now_ns)

    def end(self, participant: Producer | Consumer) -> None:
        """A participant is gone, and what was held of it with it."""
        if isinstance(participant, Producer):
            self.drop_held(participant)
        else:
            self._queue.withdraw(participant, self.now_ns)
        self.roster.remove(participant)

    def drop_held(self, producer: Producer) -> None:
        """Drop held SENDs; the commands that waited behind them go to the broker."""
        self._queue.withdraw(producer, self.now_ns)
        self._count_held(-producer.held_bytes)
        self._tally.dropped_frames += len(producer.held)
        for frame in producer.drop_held():
            self._send(frame)

    def close(self) -> None:
        """The connection is gone, and with it all its participants."""
        for producer in tuple(self.roster.producers.values()):
            self.end(producer)
        for consumer in tuple(self.roster.consumers.values()):
            self.end(consumer)
        self._buffer.forget(self._released)

    def _refuse(self, producer: Producer, data: bytes, start: int, reason: str) -> None:
        """Answer a SEND that is in ``data`` up to the end of its command with an error."""
        command_end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "big")
        sequence = read_sequence(data, start + 8, command_end)
        self._tally.refused_publishes += 1
        self._answer(send_error_frame(producer.producer_id, sequence, QUOTA_EXCEEDED, reason))

    def _refuse_held(self, producer: Producer) -> None:
        """Answer everything that is held: nothing behind it may be answered before."""
        refusal = producer.refusal
        for held in producer.held:
            if held.cost is not None:
                self._refuse(producer, held.frame, 0, refusal)
        self.drop_held(producer)

    @property
    def _held_bytes_max(self) -> int:
        return self._bounds.held_bytes_max * (2 if self.is_challenged else 1)

    def _count_held(self, size: int) -> None:
        self.held_bytes += size
        self._buffer.count(size)

    def _forward(self, frame: bytes, messages: int) -> None:
        self._count_held(-len(frame))
        self.roster.unanswered += messages > 0
        self._send(frame)
        self._released()

    def _grant(self, consumer_id: int, permits: int) -> None:
        self._send(flow_frame(consumer_id, permits))
        self._released()

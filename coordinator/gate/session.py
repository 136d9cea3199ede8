"""One client's connection through the gate: what passes, what is held, what is answered.

Pure: bytes in, bytes out, told the time. The two directions are a ``FrameStream`` each; this module
decides about the frames that matter.

* **SEND** passes if nothing of its producer is held and the limiters admit it. Otherwise it is held,
  and so is everything that its producer sends after it, its CLOSE_PRODUCER included. Order within a
  producer is therefore the order of arrival; other producers and all other commands go on at once.
* **Held bytes are bounded** per connection (a frame always fits when nothing else is held). When the
  next frame does not fit, decoding stops in front of it, and so does reading, until half of the bound
  is free. In the meantime the client's PONGs are stuck, so the gate answers the broker's PINGs itself,
  and sends the client a PONG now and then: neither side takes the other for dead.
* **A topic may be closed to publishes** for a time (its backlog exceeds its quota): they are held, or
  answered with the error that clients know for it.
* **Producers end** by CLOSE_PRODUCER of either side or by ERROR for the request that creates or closes
  them. What is held of a producer that the broker has closed is dropped: it would be an error there,
  and the client, which has no receipt, sends it again.
* **Permits** of a limited consumer are withheld and passed on by frames of our own; see ``Consumer``.
* **Unanswered SENDs** are counted, because a drain waits for them. A drain discards every SEND that
  comes and passes everything else.

Everything that this module does not understand passes: the broker decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from coordinator.gate import commands
from coordinator.gate.admission import AdmissionQueue
from coordinator.gate.answers import BrokerAnswers
from coordinator.gate.frames import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    CONNECT,
    CONNECTED,
    FLOW,
    FRAME_PADDING,
    MESSAGE,
    PING,
    PONG_FRAME,
    PRODUCER,
    SEND,
    SUBSCRIBE,
    UNSUBSCRIBE,
    FrameFault,
    MalformedFrame,
)
from coordinator.gate.groups import GroupTable
from coordinator.gate.own_frames import (
    NO_REQUEST,
    NOT_ALLOWED,
    QUOTA_EXCEEDED,
    SERVICE_NOT_READY,
    error_frame,
    flow_frame,
    send_error_frame,
)
from coordinator.gate.participants import Consumer, Entries, Producer
from coordinator.gate.roster import Roster
from coordinator.gate.stream import Buffer, FrameStream, Handler, Verdict
from coordinator.gate.tally import Tally
from coordinator.gate.throttle import (
    DEFAULT_BOUNDS,
    Bounds,
    PublishBuffer,
    Throttle,
    ThrottleReason,
)

if TYPE_CHECKING:
    from coordinator.gate._runs import Run

REPLICATOR_PREFIX: Final = "pulsar.repl"
"""The broker's ``replicatorPrefix``: names of geo-replication's producers and subscriptions."""

_TOO_OFTEN: Final = "Subscribe limited by subscribe rate limit per consumer."

# Enum members as globals: one look-up less per frame.
_PASSES: Final = Verdict.PASSES


class Session:
    """The engine of one connection.

    After each call, ``to_broker`` and ``to_client`` hold what is to be written, in order; whoever writes
    it clears them.

    Args:
        groups: resolves topics.
        queue: admits messages and calls held ones up.
        tally: counts what happens on all connections.
        released: called when the queue released something of this connection.
        bounds: what is bounded for this connection.
        buffer: what is held on all connections; its own if not given.
        replicator_prefix: names that begin so belong to geo-replication, which is exempt.
        proxy_targets: host:port of our broker; a client that asks for another one is refused.
    """

    def __init__(
        self,
        groups: GroupTable,
        queue: AdmissionQueue,
        tally: Tally,
        *,
        released: Callable[[], None],
        bounds: Bounds = DEFAULT_BOUNDS,
        buffer: PublishBuffer | None = None,
        replicator_prefix: str = REPLICATOR_PREFIX,
        proxy_targets: frozenset[str] = frozenset(),
    ) -> None:
        self._groups = groups
        self._queue = queue
        self._tally = tally
        self._released = released
        self._bounds = bounds
        self._proxy_targets = proxy_targets
        self._buffer = buffer or PublishBuffer()
        self.throttle = Throttle(tally.throttles)
        self._roster = Roster(groups, replicator_prefix, self._forward_held, self._grant)
        self._producers = self._roster.producers
        self._consumers = self._roster.consumers
        self._from_client = FrameStream(self._client_handlers(), SEND, {SEND: self._on_sends})
        answers = BrokerAnswers(self._roster, self._end, self._shape)
        self._from_broker = FrameStream(
            answers.handlers() | {CONNECTED: self._on_connected, PING: self._on_ping},
            MESSAGE,
            answers.run_handlers(),
        )
        #: The time of the call that is being handled.
        self._now_ns = 0
        self._draining = False
        #: The client's address, as far as it is known.
        self.host = ""
        #: Bytes in the held queues of all producers.
        self.held_bytes = 0
        #: What is to be written to the broker and to the client.
        self.to_broker: list[Buffer] = self._from_client.out
        self.to_client: list[Buffer] = self._from_broker.out

    @property
    def paused(self) -> bool:
        """Whether reading from the client must stop, because no more can be held."""
        return self._from_client.stopped

    @property
    def unanswered(self) -> int:
        """SENDs that the broker has and that have no receipt yet."""
        return self._roster.unanswered

    @property
    def held_frames(self) -> int:
        """Frames in the held queues of all producers."""
        return sum(len(producer.held) for producer in self._producers.values())

    @property
    def withheld_permits(self) -> int:
        """Permits of all consumers that the broker does not have yet."""
        return sum(consumer.withheld for consumer in self._consumers.values())

    @property
    def waiting_consumers(self) -> int:
        """How many consumers wait for tokens."""
        return sum(consumer.waiting for consumer in self._consumers.values())

    @property
    def published_topics(self) -> frozenset[str]:
        """The topics that producers are connected to, as they name them."""
        return frozenset(producer.topic for producer in self._producers.values())

    @property
    def producers(self) -> int:
        """How many producers are connected."""
        return len(self._producers)

    @property
    def consumers(self) -> int:
        """How many consumers are connected."""
        return len(self._consumers)

    def receive_from_client(self, data: bytes, now_ns: int) -> None:
        """Take in what the client sent.

        Raises:
            MalformedFrame: close the connection; frames before that one are in ``to_broker``.
        """
        self._now_ns = now_ns
        self._from_client.feed(data)

    def receive_from_broker(self, data: bytes, now_ns: int) -> None:
        """Take in what the broker sent.

        Raises:
            MalformedFrame: close the connection; frames before that one are in ``to_client``.
        """
        self._now_ns = now_ns
        self._from_broker.feed(data)
        self._resume()

    def advance(self, now_ns: int) -> None:
        """Go on decoding after a pause, once held frames were released.

        Raises:
            MalformedFrame: as ``receive_from_client``.
        """
        self._now_ns = now_ns
        self._resume()

    def keep_alive(self) -> None:
        """Send the client a sign of life; its own PINGs may be stuck behind the pause."""
        self._from_broker.insert(PONG_FRAME)
        self._tally.keep_alive_replies += 1

    def reattach(self, now_ns: int) -> None:
        """Look up everybody's groups again; who waits, waits for the new ones.

        Raises:
            MalformedFrame: as ``advance``.
        """
        self._now_ns = now_ns
        for consumer in self._consumers.values():
            groups = self._groups.resolve(consumer.topic, now_ns)
            if not consumer.counts_for(groups):
                self._queue.withdraw(consumer, now_ns)
            consumer.attach(groups)
            consumer.ask(self._queue, now_ns)
        for producer in self._producers.values():
            groups = self._groups.resolve(producer.topic, now_ns)
            if not producer.counts_for(groups):
                self._queue.withdraw(producer, now_ns)
                producer.attach(groups)
                if producer.held and producer.refusal:
                    self._refuse_held(producer)
                elif producer.held:
                    self._queue.wait(producer, now_ns)
        self._resume()

    def drain(self, now_ns: int) -> None:
        """Let no further SEND through, the held ones included; the client will send them again.

        Raises:
            MalformedFrame: as ``advance``.
        """
        self._now_ns = now_ns
        self._draining = True
        for producer in self._producers.values():
            self._drop_held(producer)
        self._resume()

    def close(self, now_ns: int) -> None:
        """The connection is gone, and with it all its participants."""
        self._now_ns = now_ns
        for producer in tuple(self._producers.values()):
            self._end(producer)
        for consumer in tuple(self._consumers.values()):
            self._end(consumer)
        self._buffer.forget(self._released)

    # Holding and letting go

    def _hold(
        self, producer: Producer, data: bytes, start: int, frame_end: int, cost: tuple[int, int]
    ) -> Verdict | int:
        refusal = producer.refusal
        if refusal and cost[0]:
            self._refuse(producer, data, start, refusal)
            return Verdict.DISCARD
        if frame_end > len(data):
            return frame_end
        frame_size = frame_end - start
        if self.held_bytes and self.held_bytes + frame_size > self._bounds.held_bytes_max:
            return self._stop(ThrottleReason.HELD_BYTES)
        if not self._buffer.has_room(frame_size):
            self._buffer.when_relieved(self._released)
            return self._stop(ThrottleReason.PUBLISH_BUFFER)
        producer.hold(data[start:frame_end], *cost, self._now_ns)
        self._count_held(frame_size)
        if producer.waits_for is None:
            self._queue.wait(producer, self._now_ns)
            if producer.held:
                self.throttle.count(producer.reason)
        return Verdict.TAKEN

    def _refuse(self, producer: Producer, data: bytes, start: int, reason: str) -> None:
        """Answer a SEND that is in ``data`` up to the end of its command with an error."""
        command_end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "big")
        sequence = commands.read_sequence(data, start + 8, command_end)
        self._tally.refused_publishes += 1
        answer = send_error_frame(producer.producer_id, sequence, QUOTA_EXCEEDED, reason)
        self._from_broker.insert(answer)

    def _refuse_held(self, producer: Producer) -> None:
        """Answer everything that is held: nothing behind it may be answered before."""
        refusal = producer.refusal
        for held in producer.held:
            if held.messages:
                self._refuse(producer, held.frame, 0, refusal)
        self._drop_held(producer)

    def _stop(self, reason: ThrottleReason) -> Verdict:
        """Read the client no further."""
        self._tally.pauses += 1
        self.throttle.count(reason)
        self.throttle.pausing.add(reason)
        return Verdict.STOP

    def _count_held(self, size: int) -> None:
        self.held_bytes += size
        self._buffer.count(size)

    def _forward_held(self, frame: bytes, messages: int) -> None:
        self._count_held(-len(frame))
        self._roster.unanswered += messages > 0
        self._from_client.insert(frame)
        self._released()

    def _drop_held(self, producer: Producer) -> bool:
        """Drop held SENDs; tell whether commands waited behind them, which go to the broker now."""
        self._queue.withdraw(producer, self._now_ns)
        self._count_held(-producer.held_bytes)
        self._tally.dropped_frames += len(producer.held)
        stuck = producer.drop_held()
        for frame in stuck:
            self._from_client.insert(frame)
        return bool(stuck)

    def _end(self, participant: Producer | Consumer) -> bool:
        """End a participant; tell whether commands went to the broker by that."""
        stuck = isinstance(participant, Producer) and self._drop_held(participant)
        if isinstance(participant, Consumer):
            self._queue.withdraw(participant, self._now_ns)
        self._roster.remove(participant)
        return stuck

    # Withholding permits and passing them on

    def _shape(self, consumer: Consumer, entries: Entries) -> None:
        """Entries pass to a limited consumer, which may need permits for the next ones."""
        cost_less = consumer.passed(entries, self._now_ns)
        consumer.ask(self._queue, self._now_ns)
        if cost_less:
            for limiter in consumer.limiters:
                self._queue.serve_limiter(limiter, self._now_ns)

    def _grant(self, consumer_id: int, permits: int) -> None:
        self._from_client.insert(flow_frame(consumer_id, permits))
        self._released()

    def _resume(self) -> None:
        if self.paused:
            self.throttle.pausing -= {r for r in self.throttle.pausing if self._is_over(r)}
            if not self.throttle.pausing:
                self._from_client.resume()

    def _is_over(self, reason: ThrottleReason) -> bool:
        """Whether half of a bound is free again."""
        if reason is ThrottleReason.HELD_BYTES:
            return self.held_bytes <= self._bounds.held_bytes_max // 2
        if reason is ThrottleReason.PUBLISH_BUFFER:
            return self._buffer.is_relieved
        pending_max = self._bounds.pending_requests_max
        return pending_max is None or self.unanswered <= pending_max // 2

    # What the client sends

    def _client_handlers(self) -> dict[int, Handler]:
        return {
            CONNECT: self._on_connect,
            SEND: self._on_send,
            PRODUCER: self._on_producer,
            CLOSE_PRODUCER: self._on_close_producer,
            SUBSCRIBE: self._on_subscribe,
            CLOSE_CONSUMER: self._on_close_consumer,
            UNSUBSCRIBE: self._on_unsubscribe,
            FLOW: self._on_flow,
        }

    def _on_connect(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Verdict:
        target = commands.read_proxy_target(data, start + 8, command_end)
        if target and target not in self._proxy_targets:
            reason = f"this gate leads to {', '.join(sorted(self._proxy_targets))} only"
            text = f"not {target[:200]}: {reason}"
            self._from_broker.insert(error_frame(NO_REQUEST, SERVICE_NOT_READY, text))
            raise MalformedFrame(FrameFault.FOREIGN_BROKER, repr(target[:200]))
        return _PASSES

    def _on_send(self, data: bytes, start: int, command_end: int, frame_end: int) -> Verdict | int:
        producer_id, messages = commands.read_send(data, start + 8, command_end)
        if self._draining:
            return Verdict.DISCARD
        pending_max = self._bounds.pending_requests_max
        if pending_max is not None and self._roster.unanswered >= pending_max:
            return self._stop(ThrottleReason.PENDING_REQUESTS)
        producer = self._producers.get(producer_id)
        if producer is None:
            return _PASSES  # the broker ignores what it has just closed, and objects to the rest
        size = frame_end - command_end
        if producer.held or not self._queue.admit(producer.limiters, messages, size, self._now_ns):
            return self._hold(producer, data, start, frame_end, (messages, size))
        self._passed(producer, 1, messages, size)
        return _PASSES

    def _on_sends(self, run: Run) -> bool:
        """A run of SENDs; each is decided on its own if any of them may not simply pass."""
        producer = self._producers.get(run.owner)
        if producer is None or producer.held or self._draining:
            return False
        frames, messages, size = run.frames, run.messages, run.size
        pending_max = self._bounds.pending_requests_max
        if pending_max is not None and self._roster.unanswered + frames > pending_max:
            return False
        if not self._queue.admit_run(producer.limiters, messages, size, self._now_ns):
            return False
        self._passed(producer, frames, messages, size)
        return True

    def _passed(self, producer: Producer, frames: int, messages: int, size: int) -> None:
        producer.unanswered += frames
        self._roster.unanswered += frames
        if producer.exempt:
            self._tally.replicated_messages += messages
            self._tally.replicated_bytes += size

    def _on_producer(
        self, data: bytes, start: int, command_end: int, frame_end: int
    ) -> Verdict | int:
        command = commands.read_producer(data, start + 8, command_end)
        refusal = self._groups.scopes.refusal_of(command.topic)
        if refusal:
            answer = error_frame(command.request_id, QUOTA_EXCEEDED, refusal)
            self._from_broker.insert(answer)
            return Verdict.DISCARD
        former = self._producers.get(command.producer_id)
        verdict = _PASSES
        if former is not None:
            if frame_end > len(data):
                return frame_end
            # The client begins anew and sends again what has no receipt. Should a CLOSE_PRODUCER
            # have waited, this command has to follow it.
            if self._end(former):
                self._from_client.insert(data[start:frame_end])
                verdict = Verdict.TAKEN
        self._roster.open_producer(command, self._now_ns)
        return verdict

    def _on_close_producer(
        self, data: bytes, start: int, command_end: int, frame_end: int
    ) -> Verdict | int:
        producer_id, request_id = commands.read_close(data, start + 8, command_end, CLOSE_PRODUCER)
        producer = self._producers.get(producer_id)
        if producer is None:
            return _PASSES
        verdict: Verdict | int = _PASSES
        if producer.held:
            verdict = self._hold(producer, data, start, frame_end, (0, 0))
        self._roster.closing(producer, request_id)
        return verdict

    def _on_subscribe(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Verdict:
        command = commands.read_subscribe(data, start + 8, command_end)
        consumer_key = (self.host, command.consumer_name, command.consumer_id)
        if not self._groups.subscribe_rate.admits(consumer_key, self._now_ns):
            self._tally.refused_subscribes += 1
            answer = error_frame(command.request_id, NOT_ALLOWED, _TOO_OFTEN)
            self._from_broker.insert(answer)
            return Verdict.DISCARD
        former = self._consumers.get(command.consumer_id)
        if former is not None:
            self._end(former)
        self._roster.open_consumer(command, self._now_ns)
        return _PASSES

    def _on_close_consumer(
        self, data: bytes, start: int, command_end: int, _frame_end: int
    ) -> Verdict:
        consumer_id, request_id = commands.read_close(data, start + 8, command_end, CLOSE_CONSUMER)
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            self._queue.withdraw(consumer, self._now_ns)
            consumer.withheld = 0  # the broker may not hear of a consumer that it has closed
            self._roster.closing(consumer, request_id)
        return _PASSES

    def _on_unsubscribe(
        self, data: bytes, start: int, command_end: int, _frame_end: int
    ) -> Verdict:
        consumer_id, request_id = commands.read_close(data, start + 8, command_end, UNSUBSCRIBE)
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            self._roster.unsubscribing(consumer, request_id)
        return _PASSES

    def _on_flow(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Verdict:
        consumer_id, permits = commands.read_flow(data, start + 8, command_end)
        consumer = self._consumers.get(consumer_id)
        if consumer is None or not permits:
            return _PASSES
        if not consumer.limited:
            consumer.permits += permits
            return _PASSES
        consumer.withhold(permits)
        consumer.ask(self._queue, self._now_ns)
        return Verdict.DISCARD

    # What the broker sends

    def _on_connected(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Verdict:
        size = commands.read_max_message_size(data, start + 8, command_end)
        if size is not None:
            self._from_client.frame_max = self._from_broker.frame_max = size + FRAME_PADDING
        return _PASSES

    def _on_ping(self, _data: bytes, _start: int, _command_end: int, _frame_end: int) -> Verdict:
        if self.paused:
            self._from_client.insert(PONG_FRAME)
            self._tally.keep_alive_replies += 1
        return _PASSES

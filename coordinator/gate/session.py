"""One client's connection through the gate: what passes, what is held, what is answered.

Pure: bytes in, bytes out, told the time. The two directions are a ``FrameStream`` each. Who decides about
the frames that matter:

* ``ClientRequests`` about what the client sends: it passes, or is held.
* ``BrokerAnswers`` about what the broker sends: all of it passes, and much of it is counted.
* ``Holding`` keeps what is held, within bounds. When the next frame does not fit, decoding stops in front
  of it, and so does reading, until there is room again. In the meantime the client's PONGs are stuck, so
  the gate answers the broker's PINGs itself, and sends the client a PONG now and then: neither side
  takes the other for dead.
* This module: the handshake, signs of life, pauses, and the end. A drain discards every SEND that comes
  and waits for the answers to those that went before; everything else passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinator.gate import commands
from coordinator.gate.admission import AdmissionQueue
from coordinator.gate.answers import BrokerAnswers
from coordinator.gate.frames import (
    AUTH_CHALLENGE,
    AUTH_RESPONSE,
    CONNECTED,
    FRAME_PADDING,
    MESSAGE,
    PING,
    PONG_FRAME,
    SEND,
)
from coordinator.gate.groups import GroupTable
from coordinator.gate.holding import Holding
from coordinator.gate.introduction import Client, Introduction
from coordinator.gate.requests import ClientRequests
from coordinator.gate.stream import Buffer, FrameStream, Verdict
from coordinator.gate.tally import Tally
from coordinator.gate.throttle import DEFAULT_BOUNDS, Bounds, PublishBuffer, Throttle

REPLICATOR_PREFIX: Final = "pulsar.repl"
"""The broker's ``replicatorPrefix``: names of geo-replication's producers and subscriptions."""

NOWHERE_ELSE: Final = Introduction()
"""No client asks for a broker by name, and the gate speaks for nobody."""


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
        introduction: what a CONNECT may say.
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
        introduction: Introduction = NOWHERE_ELSE,
    ) -> None:
        self._tally = tally
        self._holding = Holding(
            groups,
            queue,
            tally,
            send=self._send,
            answer=self._answer,
            released=released,
            bounds=bounds,
            buffer=buffer or PublishBuffer(),
            replicator_prefix=replicator_prefix,
        )
        self._roster = self._holding.roster
        self._requests = ClientRequests(
            self._holding, groups, queue, tally, introduction, self._answer
        )
        self._from_client = FrameStream(
            self._requests.handlers() | {AUTH_RESPONSE: self._on_auth_response},
            SEND,
            self._requests.run_handlers(),
            prompt_runs=groups.delayed is not None,
        )
        answers = BrokerAnswers(self._roster, self._holding.end, self._holding.shape)
        self._from_broker = FrameStream(
            answers.handlers()
            | {
                CONNECTED: self._on_connected,
                PING: self._on_ping,
                AUTH_CHALLENGE: self._on_auth_challenge,
            },
            MESSAGE,
            answers.run_handlers(),
        )
        #: What is to be written to the broker and to the client.
        self.to_broker: list[Buffer] = self._from_client.out
        self.to_client: list[Buffer] = self._from_broker.out

    @property
    def throttle(self) -> Throttle:
        """Why something is held back, or the client not read."""
        return self._holding.throttle

    @property
    def paused(self) -> bool:
        """Whether reading from the client must stop, because no more can be held."""
        return self._from_client.stopped

    @property
    def unanswered(self) -> int:
        """SENDs that the broker has and that have no receipt yet."""
        return self._roster.unanswered

    @property
    def held_bytes(self) -> int:
        """Bytes in the held queues of all producers."""
        return self._holding.held_bytes

    @property
    def held_frames(self) -> int:
        """Frames in the held queues of all producers."""
        return sum(len(producer.held) for producer in self._roster.producers.values())

    @property
    def held_since_ns(self) -> int | None:
        """Since when the oldest of them is held; None while nothing is."""
        times = (p.held_since_ns for p in self._roster.producers.values() if p.held)
        return min(times, default=None)

    @property
    def withheld_permits(self) -> int:
        """Permits of all consumers that the broker does not have yet."""
        return sum(consumer.withheld for consumer in self._roster.consumers.values())

    @property
    def waiting_consumers(self) -> int:
        """How many consumers wait for tokens."""
        return sum(consumer.waiting for consumer in self._roster.consumers.values())

    @property
    def published_topics(self) -> frozenset[str]:
        """The topics that producers are connected to, as they name them."""
        return frozenset(producer.topic for producer in self._roster.producers.values())

    @property
    def hasty_subscriptions(self) -> frozenset[tuple[str, str]]:
        """Topic and subscription of consumers that get delayed messages at once (core/delayed.py)."""
        consumers = self._roster.consumers.values()
        return frozenset((each.topic, each.subscription) for each in consumers if not each.shared)

    @property
    def producers(self) -> int:
        """How many producers are connected."""
        return len(self._roster.producers)

    @property
    def consumers(self) -> int:
        """How many consumers are connected."""
        return len(self._roster.consumers)

    def connected(self, client: Client) -> None:
        """Who the client is, as far as its socket tells."""
        self._requests.client = client

    def receive_from_client(self, data: bytes, now_ns: int) -> None:
        """Take in what the client sent.

        Raises:
            MalformedFrame: close the connection; frames before that one are in ``to_broker``.
        """
        self._holding.now_ns = now_ns
        self._from_client.feed(data)

    def receive_from_broker(self, data: bytes, now_ns: int) -> None:
        """Take in what the broker sent.

        Raises:
            MalformedFrame: close the connection; frames before that one are in ``to_client``.
        """
        self._holding.now_ns = now_ns
        self._from_broker.feed(data)
        self._resume()

    def advance(self, now_ns: int) -> None:
        """Go on decoding after a pause, once held frames were released.

        Raises:
            MalformedFrame: as ``receive_from_client``.
        """
        self._holding.now_ns = now_ns
        self._resume()

    def keep_alive(self) -> None:
        """Send the client a sign of life; its own PINGs may be stuck behind the pause."""
        self._answer(PONG_FRAME)
        self._tally.keep_alive_replies += 1

    def reattach(self, now_ns: int) -> None:
        """Look up everybody's groups again; who waits, waits for the new ones.

        Raises:
            MalformedFrame: as ``advance``.
        """
        self._holding.now_ns = now_ns
        self._holding.reattach()
        self._resume()

    def drain(self, now_ns: int) -> None:
        """Let no further SEND through, the held ones included; the client will send them again.

        Raises:
            MalformedFrame: as ``advance``.
        """
        self._holding.now_ns = now_ns
        self._requests.draining = True
        for producer in self._roster.producers.values():
            self._holding.drop_held(producer)
        self._resume()

    def close(self, now_ns: int) -> None:
        """The connection is gone, and with it all its participants."""
        self._holding.now_ns = now_ns
        self._holding.close()

    def _send(self, frame: bytes) -> None:
        self._from_client.insert(frame)

    def _answer(self, frame: bytes) -> None:
        self._from_broker.insert(frame)

    def _resume(self) -> None:
        if self.paused and self._holding.may_resume():
            self._from_client.resume()

    def _on_connected(self, data: bytes, start: int, command_end: int, _frame_end: int) -> Verdict:
        size = commands.read_max_message_size(data, start + 8, command_end)
        if size is not None:
            self._from_client.frame_max = self._from_broker.frame_max = size + FRAME_PADDING
        return Verdict.PASSES

    def _on_ping(self, _data: bytes, _start: int, _command_end: int, _frame_end: int) -> Verdict:
        if self.paused:
            self._send(PONG_FRAME)
            self._tally.keep_alive_replies += 1
        return Verdict.PASSES

    def _on_auth_challenge(
        self, _data: bytes, _start: int, _command_end: int, _frame_end: int
    ) -> Verdict:
        self._holding.is_challenged = True
        return Verdict.PASSES

    def _on_auth_response(
        self, _data: bytes, _start: int, _command_end: int, _frame_end: int
    ) -> Verdict:
        self._holding.is_challenged = False
        return Verdict.PASSES

"""One client's connection through the gate: decide which frames pass, which are held, which are answered.

Pure: bytes in, bytes out, told the time. Each direction is a ``FrameStream``. These decide about its
frames:

* ``Handshake``: the client's ``Identity``, and every frame until the broker has accepted the client.
* ``ClientRequests``: the client's frames from then on; each passes, is held, or is refused.
* ``BrokerAnswers``: the broker's frames; many are counted, and messages beyond a limit are held.
* ``BrokerAddresses``: the addresses in the broker's frames; clients are told those of gates.
* ``HoldBuffer``: held frames, within bounds. When the next frame does not fit, decoding stops in front of
  it, and so does reading, until there is room again.
* ``KeepAlive``: signs of life; neither side considers the other dead during such a pause.
* This module: pauses, and the end. A drain discards every new SEND and waits for the answers to the
  earlier ones; all other frames pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinator.core.addresses import AddressMap
from coordinator.gate.engine.addresses import AddressBook, BrokerAddresses
from coordinator.gate.engine.answers import BrokerAnswers
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.delayed import DelayingProducer, DelayingRequests
from coordinator.gate.engine.handshake import Handshake
from coordinator.gate.engine.hold_buffer import HoldBuffer
from coordinator.gate.engine.identity import NO_IDENTITIES, Identity, IdentityRules
from coordinator.gate.engine.keepalive import KeepAlive
from coordinator.gate.engine.producer import Producer
from coordinator.gate.engine.replication import ReplicationPeers
from coordinator.gate.engine.requests import ClientRequests
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.metering import Advance, MeteredLimiter
from coordinator.gate.limits.publish_buffer import PublishBuffer
from coordinator.gate.limits.throttle import DEFAULT_BOUNDS, Throttle, ThrottleBounds
from coordinator.gate.protocol import commands
from coordinator.gate.protocol.commands import ProducerCommand
from coordinator.gate.protocol.connect_policy import Client, ConnectPolicy
from coordinator.gate.protocol.frames import (
    AUTH_CHALLENGE,
    CONNECTED,
    FRAME_PADDING,
    MAX_MESSAGE_SIZE,
    MESSAGE,
    SEND,
    command_max,
)
from coordinator.gate.protocol.refusals import RefusalReason, Refusals
from coordinator.gate.protocol.stream import ENDLESS, Buffer, FrameStream, FrameVerdict

HANDSHAKE_FRAME_MAX: Final = 128 * 1024
"""The largest frame of a client that the broker has not accepted. Tokens and tickets are smaller, and
unknown clients fill no more memory than this."""

NOWHERE_ELSE: Final = ConnectPolicy()
"""Clients may not ask for a broker by name, and the gate vouches for no client."""

NO_PEERS: Final = ReplicationPeers()
"""No client replicates into this cluster."""


class ConnectionAudit:
    """Records refusals, exemptions and migrations on a connection; this one records nothing."""

    def refused(self, reason: RefusalReason, detail: str) -> None:
        """Record the first refusal of this reason on the connection."""

    def exempted(self, producer: ProducerCommand) -> None:
        """Record a producer of geo-replication, which has no limit."""

    def migrated(self, url: str) -> None:
        """Record an address of another cluster to which the broker sends the client."""

    def indebted(self, limiter: MeteredLimiter, advance: Advance) -> None:
        """Record what took a limit in advance."""


class Session:
    """The engine of one connection.

    After each call, ``to_broker`` and ``to_client`` hold the bytes to write, in order; the caller that
    writes them clears them.

    Args:
        groups: resolves topics.
        queue: admits messages and serves held ones.
        counters: counts what happens on all connections.
        released: called when the queue released something of this connection.
        bounds: the bounds of this connection.
        buffer: the held bytes of all connections; the session's own if not given.
        replication: the clients whose producers are exempt.
        connect_policy: the policy for CONNECT.
        identities: what proves a role.
        addresses: the addresses of brokers and gates; if not given, every address passes.
        audit: told of refusals, and of exempt producers once the broker has accepted them.
        turn: the decisions of a turn of each side.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, each one explained above
        self,
        groups: GroupTable,
        queue: AdmissionQueue,
        counters: GateCounters,
        *,
        released: Callable[[], None],
        bounds: ThrottleBounds = DEFAULT_BOUNDS,
        buffer: PublishBuffer | None = None,
        replication: ReplicationPeers = NO_PEERS,
        connect_policy: ConnectPolicy = NOWHERE_ELSE,
        identities: IdentityRules = NO_IDENTITIES,
        addresses: AddressBook | None = None,
        audit: ConnectionAudit | None = None,
        turn: int = ENDLESS,
    ) -> None:
        self._counters = counters
        self._replication = replication
        self._audit = audit or ConnectionAudit()
        delays = groups.delayed is not None
        refusals = Refusals(counters.refusals, self._audit.refused)
        self._holding = HoldBuffer(
            groups,
            queue,
            counters,
            send=self._send,
            answer=self._answer,
            released=released,
            bounds=bounds,
            buffer=buffer or PublishBuffer(),
            refusals=refusals,
            producer_type=DelayingProducer if delays else Producer,
            is_challenged=lambda: self.owes_answer,
            final_error=lambda: self._handshake.final_error,
            exempted=self._audit.exempted,
            indebted=self._audit.indebted,
        )
        self._participants = self._holding.participants
        self._identity = Identity(identities)
        self._handshake = Handshake(connect_policy, self._identity, self._answer)
        self._keep_alive = KeepAlive(
            counters, is_paused=lambda: self.paused, send=self._send, answer=self._answer
        )
        requests = DelayingRequests if delays else ClientRequests
        self._requests = requests(
            self._holding,
            groups,
            queue,
            counters,
            refusals=refusals,
            vouches=connect_policy.vouches,
            answer=self._answer,
            host=lambda: self._handshake.client.host,
            replicates=self._replicates,
            charge=self._charge_client,
        )
        #: Whether the broker has accepted the connection. Until then only small frames are accepted.
        self.is_established = False
        self._from_client = FrameStream(
            self._handshake.handlers() | self._keep_alive.client_handlers(),
            SEND,
            self._handshake.refuse_early,
            prompt_runs=delays,
            has_room=self._holding.has_room_for_unfinished,
            keeps=self._holding.count_unfinished,
            largest=command_max,
            turn=turn,
        )
        self._from_client.frame_max = HANDSHAKE_FRAME_MAX
        answers = BrokerAnswers(
            self._participants,
            BrokerAddresses(addresses or AddressBook(AddressMap()), refusals, self._audit.migrated),
            refusals,
            self._holding.deliveries,
            self._holding.end,
            self._holding.shape,
            self._holding.may_have_stored,
            lambda: self._holding.now_ns,
            charge=self._charge_broker,
        )
        self._from_broker = FrameStream(
            answers.handlers()
            | {
                CONNECTED: self._on_connected,
                AUTH_CHALLENGE: self._on_auth_challenge,
            }
            | self._keep_alive.broker_handlers(),
            MESSAGE,
            _let_pass,
            answers.run_handlers(),
            turn=turn,
        )
        #: The bytes to write to the broker and to the client.
        self.to_broker: list[Buffer] = self._from_client.out
        self.to_client: list[Buffer] = self._from_broker.out

    @property
    def throttle(self) -> Throttle:
        """The reasons for which frames are held, or the client is not read."""
        return self._holding.throttle

    @property
    def paused(self) -> bool:
        """Whether reading from the client must stop, because the gate can hold no more."""
        return self._from_client.stopped

    @property
    def client_failed(self) -> bool:
        """Whether a frame of the client was malformed; a frame of the broker may bring it to light."""
        return self._from_client.failed

    @property
    def client_waits(self) -> bool:
        """Whether bytes that the client sent wait for a further turn."""
        return self._from_client.waits

    @property
    def broker_waits(self) -> bool:
        """Whether bytes that the broker sent wait for a further turn."""
        return self._from_broker.waits

    @property
    def waiting_bytes(self) -> int:
        """The bytes of both sides that wait for a further turn."""
        return self._from_client.waiting_bytes + self._from_broker.waiting_bytes

    @property
    def unsent_answers(self) -> int:
        """The bytes for the client that wait for a frame of the broker to end."""
        return self._from_broker.inserting_bytes

    @property
    def awaited_frame(self) -> int:
        """The number of the client's large frame that is kept until it is complete; 0 is none."""
        return self._from_client.awaited_frame

    @property
    def is_introduced(self) -> bool:
        """Whether the client has said CONNECT."""
        return self._handshake.connect_seen

    @property
    def owes_answer(self) -> bool:
        """Whether the client has yet to answer a challenge of the broker."""
        return self._handshake.challenges > 0

    @property
    def role(self) -> str:
        """The role that the client has proved."""
        return self._identity.role

    @property
    def unanswered(self) -> int:
        """SENDs that the broker has and has not answered."""
        return self._participants.unanswered

    @property
    def held_bytes(self) -> int:
        """Bytes in the held queues of all participants, and of a large frame that is not complete."""
        return self._holding.held_bytes + self._holding.deliveries.held_bytes

    @property
    def held_frames(self) -> int:
        """Frames in the held queues of all participants."""
        return sum(len(each.held) for each in self._participants)

    @property
    def held_since_ns(self) -> int | None:
        """The time at which the oldest held publish came; None if none is held."""
        times = (p.held_since_ns for p in self._participants.producers.values() if p.held)
        return min(times, default=None)

    @property
    def withheld_permits(self) -> int:
        """Permits of all consumers that the broker does not have yet."""
        return sum(consumer.withheld for consumer in self._participants.consumers.values())

    @property
    def waiting_consumers(self) -> int:
        """The number of consumers that wait for tokens."""
        return sum(consumer.waiting for consumer in self._participants.consumers.values())

    @property
    def published_topics(self) -> frozenset[str]:
        """The topics of the connected producers, as the client names them."""
        return frozenset(producer.topic for producer in self._participants.producers.values())

    @property
    def hasty_subscriptions(self) -> frozenset[tuple[str, str]]:
        """Topic and subscription of consumers to which the broker sends delayed messages at once."""
        consumers = self._participants.consumers.values()
        return frozenset((each.topic, each.subscription) for each in consumers if not each.shared)

    @property
    def producers(self) -> int:
        """The number of connected producers."""
        return len(self._participants.producers)

    @property
    def consumers(self) -> int:
        """The number of connected consumers."""
        return len(self._participants.consumers)

    def connected(self, client: Client) -> None:
        """Take the client's identity, as far as its socket tells."""
        self._handshake.client = client

    def take_decided(self) -> int:
        """Return the decisions since the last call."""
        decided = self._from_client.decided + self._from_broker.decided
        self._from_client.decided = self._from_broker.decided = 0
        return decided

    def keep_from_client(self, data: bytes) -> None:
        """Take bytes that the client sent, to decide them in a later turn."""
        self._from_client.keep(data)

    def keep_from_broker(self, data: bytes) -> None:
        """Take bytes that the broker sent, to decide them in a later turn."""
        self._from_broker.keep(data)

    def receive_from_client(self, data: bytes, now_ns: int) -> None:
        """Take bytes that the client sent, and decide a turn of them.

        Raises:
            MalformedFrame: close the connection; frames before that one are in ``to_broker``.
        """
        self.keep_from_client(data)
        self.serve_client(now_ns)

    def receive_from_broker(self, data: bytes, now_ns: int) -> None:
        """Take bytes that the broker sent, and decide a turn of them.

        Raises:
            MalformedFrame: close the connection; frames before that one are in ``to_client``.
        """
        self.keep_from_broker(data)
        self.serve_broker(now_ns)

    def serve_client(self, now_ns: int) -> None:
        """Decide a turn of the bytes that the client sent.

        Raises:
            MalformedFrame: as ``receive_from_client``.
        """
        self._holding.now_ns = now_ns
        self._from_client.go_on()
        self._settle_role()

    def serve_broker(self, now_ns: int) -> None:
        """Decide a turn of the bytes that the broker sent.

        Raises:
            MalformedFrame: as ``receive_from_broker``.
        """
        self._holding.now_ns = now_ns
        deliveries = self._holding.deliveries
        deliveries.begin_read()
        self._from_broker.go_on()
        if deliveries.arriving.size and not self._from_broker.awaits_rest:
            deliveries.arriving.keep(0)
        self._holding.overdue.answered(now_ns)
        self._resume()

    def advance(self, now_ns: int) -> None:
        """Go on decoding after a pause, when held frames were released.

        Raises:
            MalformedFrame: as ``receive_from_client``.
        """
        self._holding.now_ns = now_ns
        self._resume()

    def keep_alive(self, *, to_broker: bool = False) -> None:
        """Send the client, and the broker if asked to, a sign of life (`KeepAlive.reassure`)."""
        self._keep_alive.reassure(broker=to_broker)

    def reattach(self, now_ns: int) -> None:
        """Resolve the groups of all participants again; those that wait, wait for the new groups.

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
        for producer in self._participants.producers.values():
            self._holding.drop_held(producer)
        self._resume()

    def close(self, now_ns: int) -> None:
        """Remove all participants, because the connection is closed; what never came is not counted."""
        self._holding.now_ns = now_ns
        self._requests.give_back(self._from_client.missing_bytes)
        self._holding.close()

    def _charge_client(self, decisions: int) -> None:
        self._from_client.charge(decisions)

    def _charge_broker(self, decisions: int) -> None:
        self._from_broker.charge(decisions)

    def _send(self, frame: bytes) -> None:
        self._from_client.insert(frame)

    def _answer(self, frame: bytes) -> None:
        self._from_broker.insert(frame)

    def _resume(self) -> None:
        if self.paused and self._holding.may_resume():
            self._from_client.resume()
            self._settle_role()

    def _settle_role(self) -> None:
        """Count all participants for the role's group from now on, if the role has changed.

        Only once all frames that came with the proof were decoded: the broker is to judge it before it
        gets a message that the new role's limit lets pass.
        """
        if self._participants.role != self._identity.role and not self.client_waits:
            self._holding.set_role(self._identity.role)
            self._resume()

    def _replicates(self, producer: ProducerCommand) -> str | None:
        name = producer.producer_name
        exempt = self._replication.exempt(self._handshake.client, name)
        return self._replication.cluster_of(name) if exempt else None

    def _on_connected(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> FrameVerdict:
        size = commands.read_max_message_size(data, body, command_end) or MAX_MESSAGE_SIZE
        self._from_client.frame_max = self._from_broker.frame_max = size + FRAME_PADDING
        self.is_established = True
        requests = self._requests
        self._from_client.expect(
            self._handshake.handlers() | self._keep_alive.client_handlers() | requests.handlers(),
            requests.refuse_unknown,
            requests.run_handlers(),
        )
        return FrameVerdict.PASSES

    def _on_auth_challenge(
        self, _data: bytes, _start: int, _body: int, _command_end: int, _frame_end: int
    ) -> FrameVerdict:
        self._handshake.challenges += 1
        return FrameVerdict.PASSES


def _let_pass(_kind: int) -> None:
    """Object to no frame of a broker."""

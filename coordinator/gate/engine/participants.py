"""The participants of a connection: producers and consumers by id, as the broker knows them.

The client chooses ids, which are unique per connection only; requests and their answers match by request
id (pulsar-common's PulsarDecoder, broker's ServerCnx). The gate believes the broker's answers:

* A participant exists once the broker has accepted it (PRODUCER_SUCCESS, or SUCCESS to a SUBSCRIBE),
  and counts for no group before. Permits that a client gives too early wait for that.
* It ends when the broker answers a close, closes it by itself, or answers an UNSUBSCRIBE by SUCCESS;
  or when the connection ends.
* To a second PRODUCER or SUBSCRIBE with an id in use, the broker keeps the first and may answer either
  way. A request for the same participant may go to the broker, as its answer changes nothing; any other
  is refused, because gate and broker could otherwise disagree about which participant exists.
* An id is in use from the first request that opens it until no participant and no request that opens or
  closes it is left.
* An answered close ends the participant that exists, and no request that is still under way: a broker may
  answer the close of a producer that it is about to make, and make it afterwards. A request that it never
  answers keeps its id for the same participant until the connection ends.
* A repeated PRODUCER or SUBSCRIBE that is granted after its participant has ended can mean either: the
  broker found the first one and answered late, or it made another. The gate cannot know which, so the
  connection ends. Clients that wait for an answer, or close before they ask again, never get there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Final, NamedTuple

from coordinator.core.model import MonitoringClass
from coordinator.core.owners import ANONYMOUS
from coordinator.gate.engine.consumer import Consumer, HeldEntry
from coordinator.gate.engine.outstanding import OutstandingRequests
from coordinator.gate.engine.producer import Cost, Producer
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.namespaces import NOWHERE
from coordinator.gate.limits.service_order import ClientTurns
from coordinator.gate.protocol.commands import PERMITS_MAX, ProducerCommand, SubscribeCommand
from coordinator.gate.protocol.frames import FrameFault, MalformedFrame
from coordinator.gate.protocol.own_frames import SERVICE_NOT_READY, TOO_MANY_REQUESTS
from coordinator.gate.protocol.refusals import RefusalReason, RequestRefused

#: CommandSubscribe.SubType: Shared and Key_Shared; the others are Exclusive 0 and Failover 2.
_SHARED = (1, 3)

_CLOSED_MAX: Final = 10_000
"""Closed producers' ids, and closed consumers' ids, that are remembered."""

_OWN_REQUESTS: Final = 1 << 62
"""The ids of the gate's own requests begin here: no client comes so far."""


_Command = ProducerCommand | SubscribeCommand

Key = tuple[type[_Command], int]
"""An id, and whether it is a producer's or a consumer's."""


class _Does(Enum):
    OPEN = "opens its id"
    CLOSE = "closes it, whatever is answered"
    UNSUBSCRIBE = "closes it if it succeeds"
    ASK = "concerns no id"


@dataclass(slots=True, eq=False)
class _Slot:
    """One id of a producer or a consumer while it is in use.

    Args:
        command: the request that opened it.
        opening: number of requests under way that open it.
        doubtful_before: number of the last request that ended its participant: those of them that were
            sent before that may be repeats.
        closing: number of requests under way that close it.
        permits: permits that its consumer was given before the broker accepted it.
        remote: the cluster that it replicates from; None if it does not replicate.
    """

    command: _Command
    remote: str | None
    opening: int = 0
    doubtful_before: int = 0
    closing: int = 0
    permits: int = 0


class _Request(NamedTuple):
    """A request under way that concerns an id.

    Args:
        does: the meaning of its answer for the id.
        slot: the id; None if it is not in use.
        number: how many requests about ids were sent up to this one.
    """

    does: _Does
    slot: _Slot | None
    number: int


class Participants:
    """The participants of one connection.

    Args:
        groups: resolves their topics.
        producer_type: makes the producers.
        participants_max: most producers and consumers together.
        forward: takes a frame that a producer releases, and its cost.
        overdue: told of a producer whose first held message is overdue, and the time.
        grant: sends the broker a FLOW for a consumer id with this number of permits.
        deliver: takes a held entry of a consumer that passes.
        permitted: told of a consumer that was given permits before the broker accepted it.
        exempted: told of a producer that replicates, once the broker has accepted it.
        settled: told of an answered request's id, and whether the broker did what it asks for.
        client_of: returns the turns that the connections of a role share.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, each one explained above
        self,
        groups: GroupTable,
        *,
        producer_type: type[Producer],
        participants_max: int,
        forward: Callable[[Producer, bytes, Cost], None],
        overdue: Callable[[Producer, int], None],
        grant: Callable[[int, int], None],
        deliver: Callable[[Consumer, HeldEntry], None],
        permitted: Callable[[Consumer], None],
        exempted: Callable[[ProducerCommand], None],
        settled: Callable[[int, bool], None],
        client_of: Callable[[str], ClientTurns],
    ) -> None:
        self._groups = groups
        self._client_of = client_of
        self._producer_type = producer_type
        self._participants_max = participants_max
        self._forward = forward
        self._overdue = overdue
        self._grant = grant
        self._deliver = deliver
        self._permitted = permitted
        self._exempted = exempted
        self._settled = settled
        self._slots: dict[Key, _Slot] = {}
        self._requests: OutstandingRequests[_Request] = OutstandingRequests()
        #: Requests that were sent so far.
        self._sent = 0
        self._own_ids = count(_OWN_REQUESTS)
        #: The gate's own requests under way.
        self._own: set[int] = set()
        #: The last closed ids of producers and of consumers.
        self._closed: dict[Key, None] = {}
        #: SENDs that the broker has and has not answered, of all producers.
        self.unanswered = 0
        #: The role of the client, and the turns that it shares with all of that role.
        self.role = ANONYMOUS
        self.client = client_of(ANONYMOUS)
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}

    def __iter__(self) -> Iterator[Producer | Consumer]:
        yield from self.producers.values()
        yield from self.consumers.values()

    def set_role(self, role: str) -> None:
        """Share the turns of this role from now on; none may wait. ``reattach`` resolves its groups."""
        self.role = role
        self.client = self._client_of(role)
        for participant in self:
            participant.client = self.client
            participant.served_until_ns.clear()  # by the clocks of another client

    # Requests of the client

    def open(self, command: _Command, *, remote: str | None = None) -> None:
        """Take the client's request for a producer, which may replicate from a cluster, or a consumer.

        Raises:
            RequestRefused: another one has its id, or there are `participants_max` already.
            MalformedFrame: the request id is in use.
        """
        key, request_id = _key_of(command), command.request_id
        slot = self._slots.get(key)
        if slot is not None and slot.command._replace(request_id=request_id) != command:
            raise _id_in_use(command)
        if slot is None and len(self._slots) >= self._participants_max:
            text = "too many producers and consumers on this connection: use another one"
            raise RequestRefused(request_id, TOO_MANY_REQUESTS, text, RefusalReason.PARTICIPANTS)
        opened = slot or _Slot(command, remote)
        self._send(request_id, _Does.OPEN, opened)
        opened.opening += 1
        self._slots[key] = opened

    def close(self, key: Key, request_id: int) -> None:
        """Take a request to close the producer or consumer that has this id.

        Raises:
            MalformedFrame: the request id is in use.
        """
        self._close(key, request_id, _Does.CLOSE)

    def unsubscribe(self, consumer_id: int, request_id: int) -> None:
        """Take the client's request to unsubscribe, which changes nothing if it fails.

        Raises:
            MalformedFrame: the request id is in use.
        """
        self._close((SubscribeCommand, consumer_id), request_id, _Does.UNSUBSCRIBE)

    def _close(self, key: Key, request_id: int, does: _Does) -> None:
        slot = self._slots.get(key)
        self._send(request_id, does, slot)
        if slot is not None:
            slot.closing += 1

    def _send(self, request_id: int, does: _Does, slot: _Slot | None) -> None:
        self._requests.open(request_id, _Request(does, slot, self._sent + 1))
        self._sent += 1

    def close_by_gate(self, consumer: Consumer) -> int:
        """Take the gate's own request to close a consumer; return the id of the request."""
        request_id = next(self._own_ids)
        self.closed_consumer(consumer.consumer_id)
        self.close((SubscribeCommand, consumer.consumer_id), request_id)
        self._own.add(request_id)
        return request_id

    def take_own(self, request_id: int) -> bool:
        """Take an answer; return whether it is to a request of the gate, and not to one of the client."""
        is_own = request_id in self._own
        self._own.discard(request_id)
        return is_own

    def ask(self, request_id: int) -> None:
        """Take a request that changes no participant.

        Raises:
            MalformedFrame: the request id is in use.
        """
        self._send(request_id, _Does.ASK, None)

    def look_up(self, request_id: int) -> None:
        """Take a request of the lookup service, whose requests are numbered apart.

        Raises:
            MalformedFrame: the request id is in use.
        """
        self._requests.open_lookup(request_id)

    def permit_early(self, consumer_id: int, permits: int) -> bool:
        """Keep permits for a consumer that the broker has not accepted yet; False if there is none."""
        slot = self._slots.get((SubscribeCommand, consumer_id))
        if slot is None or not slot.opening:
            return False
        slot.permits = min(slot.permits + permits, PERMITS_MAX)
        return True

    def was_closed(self, key: Key) -> bool:
        """Return whether a participant of this id was closed lately: its client may not know yet."""
        return key in self._closed

    # Answers of the broker

    def succeeded(self, request_id: int, now_ns: int) -> Producer | Consumer | None:
        """Take an answer that grants a request; return the participant that it ends.

        Raises:
            MalformedFrame: it is not clear whether the broker made a participant.
        """
        request = self._requests.succeeded(request_id)
        if request is not None:
            self._settled(request_id, True)
        if request is None or request.slot is None:
            return None
        if request.does is _Does.OPEN:
            self._accept(request, request_id, now_ns)
            return None
        return self._end(request)

    def failed(self, request_id: int) -> Producer | Consumer | None:
        """Take an ERROR; return the participant that it ends."""
        return self._refused(self._requests.failed(request_id), request_id)

    def refused(self, request_id: int) -> Producer | Consumer | None:
        """Take an answer other than ERROR that refuses a request; return the participant that it ends."""
        return self._refused(self._requests.succeeded(request_id), request_id)

    def looked_up(self, request_id: int) -> Producer | Consumer | None:
        """Take an answer of the lookup service; return the participant that it shows to be ended."""
        return self._refused(self._requests.lookup_succeeded(request_id), request_id)

    def _refused(self, request: _Request | None, request_id: int) -> Producer | Consumer | None:
        if request is not None:
            self._settled(request_id, False)
        if request is None or request.slot is None:
            return None
        if request.does is _Does.CLOSE:
            return self._end(request)
        if request.does is _Does.OPEN:
            request.slot.opening -= 1
        else:
            request.slot.closing -= 1
        self._tidy(request.slot)
        return None

    def _accept(self, request: _Request, request_id: int, now_ns: int) -> None:
        """Count a participant from now on, unless it exists already."""
        slot = request.slot
        assert slot is not None
        slot.opening -= 1
        command = slot.command
        if self._participant(command) is not None:
            return
        if request.number < slot.doubtful_before:
            raise MalformedFrame(FrameFault.DOUBTFUL_ANSWER, f"request {request_id}")
        if isinstance(command, ProducerCommand):
            self._accept_producer(command, now_ns, slot.remote)
        else:
            consumer = self._accept_consumer(command, now_ns)
            if slot.permits:
                consumer.withhold(slot.permits)
                slot.permits = 0
                self._permitted(consumer)

    def _accept_producer(self, command: ProducerCommand, now_ns: int, remote: str | None) -> None:
        producer = self._producer_type(
            command.producer_id,
            command.topic,
            self.client,
            remote=remote,
            forward=self._forward,
            overdue=self._overdue,
        )
        producer.attach(self.groups_of(producer, now_ns))
        namespace = self._groups.namespace(command.topic, MonitoringClass.PUBLISH, self.role)
        producer.count_for(namespace)
        self.producers[command.producer_id] = producer
        if producer.exempt:
            producer.namespace = self._groups.replicated_namespace(command.topic)
            producer.namespace.joined(1)
            self._exempted(command)

    def groups_of(self, participant: Producer | Consumer, now_ns: int) -> tuple[Group, ...]:
        """Return the groups that a participant counts for now."""
        if isinstance(participant, Consumer):
            name = participant.subscription
            return self._groups.resolve(participant.topic, now_ns, self.role, subscription=name)
        if participant.remote is not None:
            return self._groups.of_replication(participant.remote)
        return self._groups.resolve(participant.topic, now_ns, self.role, publishing=True)

    def _accept_consumer(self, command: SubscribeCommand, now_ns: int) -> Consumer:
        consumer = Consumer(
            command.consumer_id,
            command.topic,
            command.subscription,
            self.client,
            shared=command.kind in _SHARED,
            grant=self._grant,
            deliver=self._deliver,
        )
        consumer.attach(self.groups_of(consumer, now_ns))
        namespace = self._groups.namespace(command.topic, MonitoringClass.DISPATCH, self.role)
        consumer.count_for(namespace)
        self.consumers[command.consumer_id] = consumer
        return consumer

    def _end(self, request: _Request) -> Producer | Consumer | None:
        """Return the participant that a close ends, if it exists."""
        slot = request.slot
        assert slot is not None
        slot.closing -= 1
        participant = self._participant(slot.command)
        if participant is not None:
            slot.doubtful_before = max(slot.doubtful_before, request.number)
        self._tidy(slot)
        return participant

    def closed_producer(self, producer_id: int) -> Producer | None:
        """Take the broker's close of a producer by itself; return the producer if it exists."""
        self._doubt((ProducerCommand, producer_id))
        return self.producers.get(producer_id)

    def closed_consumer(self, consumer_id: int) -> Consumer | None:
        """Take the broker's close of a consumer by itself; return the consumer if it exists."""
        self._doubt((SubscribeCommand, consumer_id))
        return self.consumers.get(consumer_id)

    def _doubt(self, key: Key) -> None:
        slot = self._slots.get(key)
        if slot is not None and self._participant(slot.command) is not None:
            slot.doubtful_before = self._sent + 1

    def _participant(self, command: _Command) -> Producer | Consumer | None:
        """Return the participant that a request opens, if the broker has accepted it."""
        if isinstance(command, ProducerCommand):
            return self.producers.get(command.producer_id)
        return self.consumers.get(command.consumer_id)

    def remove(self, participant: Producer | Consumer) -> None:
        """Remove a participant from its groups."""
        participant.attach(())
        if participant.exempt:
            participant.namespace.joined(-1)
        participant.count_for(NOWHERE)
        if isinstance(participant, Producer):
            self.unanswered -= participant.unanswered
            del self.producers[participant.producer_id]
            key: Key = (ProducerCommand, participant.producer_id)
        else:
            del self.consumers[participant.consumer_id]
            key = (SubscribeCommand, participant.consumer_id)
        self._closed.pop(key, None)
        self._closed[key] = None
        if len(self._closed) > _CLOSED_MAX:
            del self._closed[next(iter(self._closed))]
        slot = self._slots.get(key)
        if slot is not None:
            self._tidy(slot)

    def _tidy(self, slot: _Slot) -> None:
        """Free an id that is no longer in use."""
        command = slot.command
        if self._participant(command) is None and not slot.opening and not slot.closing:
            self._slots.pop(_key_of(command), None)


def _key_of(command: _Command) -> Key:
    if isinstance(command, ProducerCommand):
        return ProducerCommand, command.producer_id
    return SubscribeCommand, command.consumer_id


def _id_in_use(command: _Command) -> RequestRefused:
    """Return the broker's answer while the first request for an id is under way; clients retry."""
    if isinstance(command, ProducerCommand):
        what, reason = "Producer", RefusalReason.PRODUCER_IN_USE
    else:
        what, reason = "Consumer", RefusalReason.CONSUMER_IN_USE
    text = f"{what} is already present on the connection"
    return RequestRefused(command.request_id, SERVICE_NOT_READY, text, reason)

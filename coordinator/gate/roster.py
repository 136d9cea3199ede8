"""Who is on a connection: producers and consumers by id, and the requests that can end them.

Ids are the client's choice and unique per connection only; requests and their answers find each other
by request_id (pulsar-common's PulsarDecoder). A participant ends

* when either side closes it: the broker at once, the client when the broker answers;
* when the broker answers ERROR to the request that creates it;
* when a consumer's UNSUBSCRIBE succeeds;
* when its id is taken by a new one, or the connection ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coordinator.core.model import MonitoringClass
from coordinator.gate.commands import ProducerCommand, SubscribeCommand
from coordinator.gate.consumer import Consumer
from coordinator.gate.groups import GroupTable
from coordinator.gate.namespaces import NOWHERE
from coordinator.gate.producer import Producer

#: CommandSubscribe.SubType: Shared and Key_Shared; the others are Exclusive 0 and Failover 2.
_SHARED = (1, 3)


class _Request(NamedTuple):
    """What the broker's answer to a request means for a participant."""

    participant: Producer | Consumer
    ends_on_success: bool
    ends_on_error: bool


class Roster:
    """The participants of one connection.

    Args:
        groups: resolves their topics.
        replicator_prefix: producers and subscriptions whose names begin so are exempt from limits.
        forward: takes a frame that a producer releases, and its messages; 0 is a command.
        grant: sends the broker a FLOW for a consumer id with so many permits.
    """

    def __init__(
        self,
        groups: GroupTable,
        replicator_prefix: str,
        forward: Callable[[bytes, int], None],
        grant: Callable[[int, int], None],
    ) -> None:
        self._groups = groups
        self._replicator_prefix = replicator_prefix
        self._forward = forward
        self._grant = grant
        self._requests: dict[int, _Request] = {}
        #: SENDs that the broker has and that have no receipt yet, of all producers.
        self.unanswered = 0
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}

    def open_producer(self, command: ProducerCommand, now_ns: int) -> None:
        """A client opens a producer; its id must be free."""
        exempt = command.producer_name.startswith(self._replicator_prefix)
        producer = Producer(
            command.producer_id, command.topic, exempt=exempt, forward=self._forward
        )
        producer.attach(self._groups.resolve(command.topic, now_ns, publishing=True))
        producer.count_for(self._groups.namespace(command.topic, MonitoringClass.PUBLISH))
        self.producers[command.producer_id] = producer
        self._requests[command.request_id] = _Request(producer, False, True)

    def open_consumer(self, command: SubscribeCommand, now_ns: int) -> None:
        """A client opens a consumer; its id must be free."""
        exempt = command.subscription.startswith(self._replicator_prefix)
        consumer = Consumer(
            command.consumer_id,
            command.topic,
            command.subscription,
            shared=command.kind in _SHARED,
            exempt=exempt,
            grant=self._grant,
        )
        consumer.attach(self._groups.resolve(command.topic, now_ns))
        consumer.count_for(self._groups.namespace(command.topic, MonitoringClass.DISPATCH))
        self.consumers[command.consumer_id] = consumer
        self._requests[command.request_id] = _Request(consumer, False, True)

    def closing(self, participant: Producer | Consumer, request_id: int) -> None:
        """The client asked to close a participant: whatever the answer is, it is gone then."""
        self._requests[request_id] = _Request(participant, True, True)

    def unsubscribing(self, consumer: Consumer, request_id: int) -> None:
        """The client asked to unsubscribe, which can fail and then changes nothing."""
        self._requests[request_id] = _Request(consumer, True, False)

    def answered(self, request_id: int, *, succeeded: bool) -> Producer | Consumer | None:
        """The broker answered for good; return the participant that ends by it."""
        request = self._requests.pop(request_id, None)
        if request is None:
            return None
        ends = request.ends_on_success if succeeded else request.ends_on_error
        return request.participant if ends and self._knows(request.participant) else None

    def remove(self, participant: Producer | Consumer) -> None:
        """Count a participant for nothing any more."""
        participant.attach(())
        participant.count_for(NOWHERE)
        if isinstance(participant, Producer):
            self.unanswered -= participant.unanswered
            del self.producers[participant.producer_id]
        else:
            del self.consumers[participant.consumer_id]

    def _knows(self, participant: Producer | Consumer) -> bool:
        # Its id may have been taken by another one since the request.
        if isinstance(participant, Producer):
            return self.producers.get(participant.producer_id) is participant
        return self.consumers.get(participant.consumer_id) is participant

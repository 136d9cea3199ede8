"""The ports that native enforcement needs, as protocols; adapters implement them.

The rules are those of ``coordinator.ports``: answer or raise, listeners on the event loop's thread, no
type of a library.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.native.engine.counting import CounterReading
from coordinator.native.engine.entries import Amounts, Record
from coordinator.native.engine.rate_policy import RatePolicy
from coordinator.native.engine.table import Statement


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A broker's facts about its own configuration.

    Args:
        service_url: the name in which it reports.
        interval_s: ``resourceUsageTransportPublishIntervalInSecs``.
        transport: ``resourceUsageTransportClassName``; empty is none.
        topic_policies: whether topics may have policies (``topicLevelPoliciesEnabled``).
        version: of Pulsar, such as ``4.2.4``; empty if it is not known.
    """

    service_url: str
    interval_s: int
    transport: str
    topic_policies: bool = True
    version: str = ""


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """State of the connection to the topic of entries.

    Args:
        connected: whether entries can be written and read.
        reason: why not, in the words of the client; empty if it is, or before the first attempt.
        written: messages that a broker took.
        failed: messages that no broker took.
    """

    connected: bool
    reason: str
    written: int
    failed: int


class EntryTopic(Protocol):
    """Pulsar's own topic of resource usage."""

    def watch(self, listener: Callable[[Statement], None]) -> None:
        """Call the listener with every message, the own ones included."""

    def write(
        self,
        broker: str,
        amounts: Mapping[str, Amounts],
        done: Callable[[bool], None],
        *,
        stands_in: bool,
    ) -> None:
        """Write in a broker's name; call back on the loop whether a broker took it.

        Args:
            broker: the broker, or the name of the rest.
            amounts: of an interval, by native group.
            done: called with whether it was taken.
            stands_in: whether it is not the writer's own broker.
        """

    def health(self) -> TopicHealth:
        """Return the state of the topic."""


class NativeAdmin(Protocol):
    """The own broker's admin REST, as far as native enforcement needs it.

    Each raises BrokerUnreachable when the broker does not answer, Refused when it may not.
    """

    async def facts(self) -> BrokerFacts:
        """Return the broker's facts about its own configuration."""

    async def record(self, group: str) -> Record | None:
        """Return a resource group's publish limits in Pulsar; None if there is no such group."""

    async def record_names(self) -> Sequence[str]:
        """Return the names of all resource groups in Pulsar."""

    async def set_record(self, group: str, record: Record) -> None:
        """Write a resource group's publish limits, or create it."""

    async def remove_record(self, group: str) -> None:
        """Remove a resource group that has no attachments."""

    async def group_of(self, namespace: str) -> str | None:
        """Return a namespace's resource group in Pulsar, empty is none; None: no such namespace."""

    async def attach(self, namespace: str, group: str) -> None:
        """Attach a namespace to a resource group in Pulsar; an empty one detaches it."""

    async def namespaces(self, tenant: str) -> Sequence[str]:
        """Return a tenant's namespaces, as ``tenant/namespace``; of an unknown tenant, none."""

    async def tenants(self) -> Sequence[str]:
        """Return all tenants."""


class OwnerRates(Protocol):
    """Rates of owners by one of Pulsar's policies, and what is kept of them.

    An owner is as in owners.py: a topic, or a subscription or a replication, which have a dispatch rate
    alone; or a namespace as ``tenant/namespace``, whose rate is the default of its topics. A rate is as
    in rate_policy.py. What is kept of an owner is a text that Pulsar stores beside it, or beside its
    topic, and deletes with it.

    Each raises NotFound when there is no such owner, BrokerUnreachable, Refused.
    """

    policy: RatePolicy
    """The policy."""

    async def rate(self, owner: str) -> str:
        """Return an owner's own rate; empty is none."""

    async def set_rate(self, owner: str, body: str) -> None:
        """Set an owner's rate, or remove it."""

    async def kept(self, owner: str) -> str | None:
        """Return the text that is kept beside an owner; None is none."""

    async def keep(self, owner: str, text: str | None) -> None:
        """Keep a text beside an owner, or remove it."""

    async def default(self, owner: str) -> str:
        """Return the rate that operators have set for all owners of its kind in one place.

        Of a subscription that is its topic, of replication the namespace; of others there is none.
        """

    async def partitions(self, owner: str) -> int:
        """Return how many partitions an owner's topic has; 0 if it is not partitioned."""


class RatePolicies(OwnerRates, Protocol):
    """`OwnerRates` that can be listed, of topics, subscriptions and namespaces."""

    async def subscriptions(self, topic: str) -> Sequence[str]:
        """Return the subscriptions of a topic that something is kept of."""

    async def topics(self, namespace: str) -> Sequence[str]:
        """Return a namespace's topics that can have a rate; of a partitioned one its name alone."""


@dataclass(frozen=True, slots=True)
class TopicPolicies:
    """The policies of topics at the own broker.

    Args:
        publish: rates of publishing.
        dispatch: of what consumers are sent.
        replication: of what each remote cluster is sent.
    """

    publish: RatePolicies
    dispatch: RatePolicies
    replication: RatePolicies

    def __iter__(self) -> Iterator[RatePolicies]:
        yield from (self.publish, self.dispatch, self.replication)


class OwnerCounters(Protocol):
    """The counters of all topics on the own broker, and of parts of what they were sent."""

    async def read(
        self, subscriptions: Collection[str] = (), remotes: Collection[str] = ()
    ) -> CounterReading:
        """Return the present counters.

        Args:
            subscriptions: by the names of their attachments; each of them has a count of its own as well.
            remotes: remote clusters; what is replicated to each of them is counted, too.

        Raises:
            BrokerUnreachable: the broker does not answer.
            Refused: it does not allow it.
        """

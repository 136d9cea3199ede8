"""Pulsar's side of native enforcement in memory: records, attachments, and the topic of entries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from coordinator.adapters.broker.paths import namespace_path
from coordinator.native.engine.conditions import TRANSPORT
from coordinator.native.engine.entries import Amounts, Record
from coordinator.native.engine.outside import BrokerFacts, TopicHealth
from coordinator.native.engine.owners import base_of, topic_of
from coordinator.native.engine.rate_policy import DISPATCH, RatePolicy
from coordinator.native.engine.table import Statement
from coordinator.ports import NotFound, Refused


def in_ten_seconds(messages: int) -> str:
    """Return a dispatch rate as an operator may have set it, and no sidecar does."""
    return json.dumps(
        {
            "dispatchThrottlingRateInMsg": messages,
            "dispatchThrottlingRateInByte": -1,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": 10,
        }
    )


class MemoryEntryTopics:
    """Pulsar's own topic of resource usage, shared by all sidecars that open it."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Statement], None]] = []

    def open(self, sidecar: str) -> MemoryEntryTopic:
        """Return the topic as one sidecar has it."""
        return MemoryEntryTopic(self, sidecar)

    def watch(self, listener: Callable[[Statement], None]) -> None:
        """Call the listener with every message."""
        self._listeners.append(listener)

    def say(self, said: Statement) -> None:
        """Deliver a message of any process."""
        for listener in self._listeners:
            listener(said)


class MemoryEntryTopic:
    """`coordinator.native.engine.outside.EntryTopic` in memory.

    Args:
        topics: the topic that it connects to.
        sidecar: the id of its sidecar.
    """

    def __init__(self, topics: MemoryEntryTopics, sidecar: str) -> None:
        self._topics = topics
        self._sidecar = sidecar
        self._written = 0

    def watch(self, listener: Callable[[Statement], None]) -> None:
        """See `EntryTopic`."""
        self._topics.watch(listener)

    def write(
        self,
        broker: str,
        amounts: Mapping[str, Amounts],
        done: Callable[[bool], None],
        *,
        stands_in: bool,
    ) -> None:
        """See `EntryTopic`."""
        self._written += 1
        producer = f"of-{self._sidecar}"
        self._topics.say(
            Statement(broker, dict(amounts), self._sidecar, producer, stands_in=stands_in)
        )
        done(True)

    def health(self) -> TopicHealth:
        """Return the health of a topic that is always connected."""
        return TopicHealth(True, "", self._written, 0)


class MemoryNativeAdmin:
    """`coordinator.native.engine.outside.NativeAdmin` in memory; the broker reports once a second.

    A name that no namespace can be asked for by is refused here too, by the same function.
    """

    def __init__(self) -> None:
        self._facts = BrokerFacts("pulsar://a:6650", 1, TRANSPORT, version="4.2.4")
        self.records: dict[str, Record] = {}
        #: Every namespace, and its group; empty is none.
        self.groups: dict[str, str] = {}

    async def facts(self) -> BrokerFacts:
        """See `NativeAdmin`."""
        return self._facts

    async def record(self, group: str) -> Record | None:
        """See `NativeAdmin`."""
        return self.records.get(group)

    async def record_names(self) -> Sequence[str]:
        """See `NativeAdmin`."""
        return sorted(self.records)

    async def set_record(self, group: str, record: Record) -> None:
        """See `NativeAdmin`."""
        self.records[group] = record

    async def remove_record(self, group: str) -> None:
        """See `NativeAdmin`."""
        if group not in self.records or group in self.groups.values():
            raise Refused(f"{group} does not exist, or is in use")
        del self.records[group]

    async def group_of(self, namespace: str) -> str | None:
        """See `NativeAdmin`."""
        namespace_path(namespace)
        return self.groups.get(namespace)

    async def attach(self, namespace: str, group: str) -> None:
        """See `NativeAdmin`."""
        namespace_path(namespace)
        if namespace not in self.groups or (group and group not in self.records):
            raise Refused(f"{namespace} or {group} does not exist")
        self.groups[namespace] = group

    async def namespaces(self, tenant: str) -> Sequence[str]:
        """See `NativeAdmin`."""
        return sorted(name for name in self.groups if name.startswith(f"{tenant}/"))

    async def tenants(self) -> Sequence[str]:
        """See `NativeAdmin`."""
        return sorted({name.partition("/")[0] for name in self.groups})


class MemoryRatePolicies:
    """`coordinator.native.engine.outside.RatePolicies` in memory.

    Args:
        owners: the namespaces and topics that there are.
        policy: which of the policies.
    """

    def __init__(self, *owners: str, policy: RatePolicy = DISPATCH) -> None:
        self.owners = set(owners)
        self.policy = policy
        #: The rates that are set, and what is kept beside their owners.
        self.rates: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        #: That of all subscriptions of a topic, by the subscription.
        self.defaults: dict[str, str] = {}

    async def rate(self, owner: str) -> str:
        """See `RatePolicies`."""
        self._check(owner)
        return self.rates.get(owner, "")

    async def set_rate(self, owner: str, body: str) -> None:
        """See `RatePolicies`."""
        self._check(owner)
        if body:
            self.rates[owner] = body
        else:
            self.rates.pop(owner, None)

    async def kept(self, owner: str) -> str | None:
        """See `RatePolicies`."""
        self._check(owner)
        return self.texts.get(owner)

    async def keep(self, owner: str, text: str | None) -> None:
        """See `RatePolicies`."""
        self._check(owner)
        if text is None:
            self.texts.pop(owner, None)
        else:
            self.texts[owner] = text

    async def default(self, owner: str) -> str:
        """See `RatePolicies`."""
        self._check(owner)
        return self.defaults.get(owner, "")

    async def subscriptions(self, topic: str) -> Sequence[str]:
        """See `RatePolicies`."""
        self._check(topic)
        return [
            each
            for each in self.texts
            if each.count("/") > 1 and each != topic and topic_of(each) == topic
        ]

    async def partitions(self, owner: str) -> int:
        """See `RatePolicies`."""
        self._check(owner)
        topic = topic_of(owner)
        return sum(owner.startswith(f"{topic}-partition-") for owner in self.owners)

    async def topics(self, namespace: str) -> Sequence[str]:
        """See `RatePolicies`."""
        self._check(namespace)
        prefix = f"persistent://{namespace}/"
        names = (base_of(each) for each in sorted(self.owners) if each.startswith(prefix))
        return tuple(dict.fromkeys(filter(None, names)))

    def _check(self, owner: str) -> None:
        if owner.count("/") == 1:
            namespace_path(owner)
        if owner not in self.owners:
            raise NotFound(f"{owner} does not exist")

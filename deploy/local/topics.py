"""Topics and who owns them, through the brokers' admin REST.

A topic belongs to a bundle of its namespace by the hash of its name, and a bundle is owned by one
broker at a time, so which broker serves a topic is found out by asking; a lookup also makes an
owner if there is none. Lookups here ask for the internal listener: they name the broker itself,
whether or not a sidecar stands before it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from deploy.local import rest
from deploy.local.configuration import CLUSTER_NAME
from deploy.local.errors import AdminRestError, LocalClusterError
from deploy.local.readiness import broker_ready
from deploy.local.state import Broker

_READY_WITHIN_S = (2.0, 20.0)
"""A broker that does not answer at once is passed over; if none does, a busy machine has its time."""

_POLL_S = 0.1
#: With twelve bundles or more, a broker that this number of names misses owns nothing.
_MOST_CANDIDATES = 60
_NOT_FOUND = 404
_CONFLICT = 409
_FAILED = (500, 503)
#: A bundle that was unloaded has a new owner long before.
_MOVED_S = 5.0
#: A bundle is unloaded once its topics have closed, which takes a busy broker a while.
_ANSWERED_WITHIN_S = 60.0
#: Two brokers that get in each other's way to become an owner are done long before, busy or not.
_OWNED_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class TopicCounters:
    """The counts of a topic's owner since it loaded the topic, so zero after a move.

    Attributes:
        messages_in: messages published.
        bytes_in: their bytes.
        messages_out: messages dispatched.
        bytes_out: their bytes.
    """

    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int


class Topics:
    """The topics of one cluster.

    Topics are named in full, as in persistent://tenant/namespace/topic, namespaces as
    tenant/namespace. Every method raises `AdminRestError` when a broker answers with an error, and
    `LocalClusterError` when none can be reached.
    """

    def __init__(self, brokers: Sequence[Broker]) -> None:
        """Ask these brokers; one that is not ready is passed over."""
        self._brokers = tuple(brokers)

    def ask(self, method: str, path: str, body: object = None) -> str:
        """Ask a broker, and again while brokers are in each other's way to own what this is about."""
        gives_up_s = time.monotonic() + _OWNED_WITHIN_S
        while True:
            try:
                url = f"{self._ready_broker().web_url}{path}"
                return rest.request(method, url, body, timeout_s=_ANSWERED_WITHIN_S)
            except AdminRestError as error:
                if not _has_no_owner_yet(error) or time.monotonic() > gives_up_s:
                    raise
            time.sleep(_POLL_S)

    def create_tenant(self, tenant: str) -> None:
        """Create a tenant, unless it exists."""
        body = {"allowedClusters": [CLUSTER_NAME], "adminRoles": []}
        self._accepted(f"/admin/v2/tenants/{tenant}", body)

    def create_namespace(self, namespace: str, bundles: int) -> None:
        """Create a namespace with this many bundles, unless it exists."""
        body = {"bundles": {"numBundles": bundles}}
        self._accepted(f"/admin/v2/namespaces/{namespace}", body)

    def keep_everything(self, namespace: str) -> None:
        """Let nothing of the namespace be deleted, whatever its consumers have acknowledged."""
        body = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        self.ask("POST", f"/admin/v2/namespaces/{namespace}/retention", body)

    def limit_publishing(self, namespace: str, messages_per_second: int) -> None:
        """Let the brokers themselves limit what is published to each of the namespace's topics."""
        body = {
            "publishThrottlingRateInMsg": messages_per_second,
            "publishThrottlingRateInByte": -1,
        }
        self.ask("POST", f"/admin/v2/namespaces/{namespace}/publishRate", body)

    def create_topic(self, topic: str) -> None:
        """Create a topic without partitions, unless it exists."""
        self._accepted(f"/admin/v2/{path_of(topic)}")

    def owner(self, topic: str) -> Broker:
        """Return the broker that serves the topic, giving it one if it has none."""
        path = f"/lookup/v2/topic/{path_of(topic)}?listenerName=internal"
        url = json.loads(self.ask("GET", path))["brokerUrl"]
        for broker in self._brokers:
            if broker.broker_port == urlsplit(url).port:
                return broker
        raise LocalClusterError(f"{topic} is served by {url}, which is none of our brokers.")

    def bundle(self, topic: str) -> str:
        """Return the bundle that the topic belongs to, such as 0x40000000_0x55555555."""
        return self.ask("GET", f"/lookup/v2/topic/{path_of(topic)}/bundle").strip().strip('"')

    def one_for_each_broker(
        self, namespace: str, prefix: str, domain: str = "persistent"
    ) -> dict[str, str]:
        """Create topics until every broker serves one, and return broker names to topics.

        Names are prefix-0, prefix-1 and so on, of the domain; the first that falls to a broker is
        taken, and those that are not needed are not created. A broker that owns nothing of the
        namespace, as one that has just come back may, is given a bundle of its own.

        Raises:
            LocalClusterError: the namespace has fewer bundles than there are brokers.
        """
        found: dict[str, str] = {}
        for number in range(_MOST_CANDIDATES):
            topic = f"{domain}://{namespace}/{prefix}-{number}"
            if found.setdefault(self.owner(topic).name, topic) == topic:
                self.create_topic(topic)
            if len(found) == len(self._brokers):
                return dict(sorted(found.items()))
        taken = {self.bundle(topic) for topic in found.values()}
        for broker in self._brokers:
            if broker.name not in found:
                topic = self._in_another_bundle(f"{domain}://{namespace}/{prefix}", taken)
                self.create_topic(topic)
                self.move(topic, broker)
                found[broker.name] = topic
                taken.add(self.bundle(topic))
        return dict(sorted(found.items()))

    def _in_another_bundle(self, prefix: str, taken: set[str]) -> str:
        for number in range(_MOST_CANDIDATES):
            topic = f"{prefix}-{number}"
            if self.bundle(topic) not in taken:
                return topic
        raise LocalClusterError(f"{prefix}: fewer bundles than there are brokers.")

    def counters(self, topic: str) -> TopicCounters:
        """Return what the topic's owner has counted; any broker passes the question on to it."""
        stats = self._stats(topic)
        return TopicCounters(
            messages_in=stats["msgInCounter"],
            bytes_in=stats["bytesInCounter"],
            messages_out=stats["msgOutCounter"],
            bytes_out=stats["bytesOutCounter"],
        )

    def publishers(self, topic: str) -> list[tuple[str, str]]:
        """From where producers are connected, and since when, as the broker says it."""
        found = self._stats(topic)["publishers"]
        return [(each["address"], each["connectedSince"]) for each in found]

    def consumers(self, topic: str) -> list[tuple[int, int]]:
        """Return the permits that each consumer has left, and the messages that it was sent."""
        subscriptions = self._stats(topic)["subscriptions"].values()
        return [
            (each["availablePermits"], each["msgOutCounter"])
            for subscription in subscriptions
            for each in subscription["consumers"]
        ]

    def move(self, topic: str, destination: Broker, timeout_s: float = 60.0) -> None:
        """Move the topic's whole bundle to this broker and wait until the broker serves it.

        Clients of all the bundle's topics are disconnected and reconnect by themselves. A broker that
        has just come back is no destination until the others know of it, and a client that looks the
        topic up in between may give the bundle to another broker: so they are asked again.

        Raises:
            LocalClusterError: another broker serves it after `timeout_s` seconds.
        """
        namespace = "/".join(path_of(topic).split("/")[1:3])
        unload = f"/admin/v2/namespaces/{namespace}/{self.bundle(topic)}/unload"
        ask = f"{unload}?destinationBroker={destination.advertised}:{destination.web_port}"
        ask_at_s = time.monotonic()
        deadline_s = ask_at_s + timeout_s
        while self.owner(topic) != destination:
            now_s = time.monotonic()
            if now_s >= deadline_s:
                raise LocalClusterError(f"{topic} did not move to {destination.name}.")
            if now_s >= ask_at_s and self._accepted(ask):
                ask_at_s = now_s + _MOVED_S
            time.sleep(_POLL_S)

    def _stats(self, topic: str) -> Any:
        return json.loads(self.ask("GET", f"/admin/v2/{path_of(topic)}/stats"))

    def _accepted(self, path: str, body: object = None) -> bool:
        """Whether the brokers accepted a PUT: False when they say that there is a conflict."""
        try:
            self.ask("PUT", path, body)
        except AdminRestError as error:
            if error.status != _CONFLICT:
                raise
            return False
        return True

    def _ready_broker(self) -> Broker:
        ready: Iterator[Broker] = (
            broker
            for within_s in _READY_WITHIN_S
            for broker in self._brokers
            if broker_ready(broker, within_s)
        )
        broker = next(ready, None)
        if broker is None:
            raise LocalClusterError("No broker of this cluster is ready.")
        return broker


def _has_no_owner_yet(error: AdminRestError) -> bool:
    """Return whether two brokers have just tried to own a bundle, or one has just lost it."""
    # The node that one of them has just removed is missing where the other one looks for it.
    return error.status in _FAILED or (error.status == _NOT_FOUND and "NoNode" in error.body)


def path_of(topic: str) -> str:
    """Return a topic's name as the admin REST has it: persistent/tenant/namespace/topic."""
    domain, separator, rest_of_name = topic.partition("://")
    assert separator, f"{topic} is not a topic's full name"
    return f"{domain}/{rest_of_name}"

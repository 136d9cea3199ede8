"""The way round the gate, as far as the broker's statistics tell it.

A broker lists the publishers of a topic, each with the address of its connection. Those with an address
of one of the gate's own connections came through the gate; the others went round it. Of these:

* *geo-replication*: the name begins with the replicator's prefix. Any client can choose such a name, so
  only the peers that the operator names are exempt, as at the gate (gate/engine/replication.py). Their
  part of the difference is their part of the others' rates where the broker has rates, else of their
  number: rates are as old as ``statsUpdateFrequencyInSecs``.
* *functions*: their producers carry the property ``application`` (pulsar-function, -source, -sink).
* *inside the broker*: a Java client at one of the broker's own addresses, as the client of its WebSocket
  service is.
* *proxy*: clients of several libraries or releases at one address, as behind a Pulsar proxy that leads to
  brokers. A broker's lists do not tell a proxy's connections from others, so this is a guess.
* *direct*: a client at the broker's own port, or a proxy all of whose clients are of one library.

Without any of them the difference has no publisher: producers that were gone before the question, or
HTTP produce, which has none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from coordinator.insight.model.gate_views import StrandedClient
from coordinator.insight.model.printable import printable
from coordinator.insight.model.reconciliation_views import StrandedView, UncountedView

_APPLICATION: Final = "application"
_FUNCTIONS: Final = ("pulsar-function", "pulsar-source", "pulsar-sink")
_JAVA: Final = "Pulsar-Java"
_SHOWN_MAX: Final = 80


class Way(Enum):
    """A way round the gate."""

    DIRECT = "direct"
    PROXY = "proxy"
    INSIDE_BROKER = "inside-broker"
    FUNCTIONS = "functions"
    REPLICATION = "geo-replication"
    UNSEEN = "unseen"

    @property
    def text(self) -> str:
        """Return the way in words."""
        return _TEXTS[self]

    @property
    def fix(self) -> str:
        """Return the remedy that closes it."""
        return _FIXES[self]


_TEXTS: Final[Mapping[Way, str]] = {
    Way.DIRECT: "a client at the broker's own port, or a proxy that leads there",
    Way.PROXY: "a Pulsar proxy that leads to brokers: clients of several libraries share an address",
    Way.INSIDE_BROKER: "a Java client on the broker's own machine, such as its WebSocket service",
    Way.FUNCTIONS: "Pulsar Functions or IO",
    Way.REPLICATION: "geo-replication",
    Way.UNSEEN: "a producer that the broker does not list: gone already, or HTTP produce",
}

_PROXY_FIX: Final = (
    "set brokerServiceURL in proxy.conf to a gate (empty, it finds brokers by itself), "
    "brokerProxyAllowedTargetPorts to the gates' port, checkActiveBrokers to false"
)

_FIXES: Final[Mapping[Way, str]] = {
    Way.DIRECT: "give clients the gates' addresses, and close the broker's port to them; of a proxy, "
    + _PROXY_FIX,
    Way.PROXY: _PROXY_FIX,
    Way.INSIDE_BROKER: "run WebSocket apart with a gate as brokerServiceUrl, and set "
    "webSocketServiceEnabled=false in broker.conf",
    Way.FUNCTIONS: "run function workers apart, with a gate as pulsarServiceUrl",
    Way.REPLICATION: "name the other clusters' brokers in replication_peer_addresses, which exempts them",
    Way.UNSEEN: "look at the namespace's producers (pulsar-admin topics stats), and at HTTP produce",
}


_STRANDED_FIX: Final = (
    "if a Pulsar proxy is at that address, name the gates' port in its brokerProxyAllowedTargetPorts and "
    "set checkActiveBrokers to false; if none is, open the gates' port to that address"
)

_UNCOUNTED_FIX: Final = "list the namespace's topics (pulsar-admin topics list), and delete these"


def stranded_view(client: StrandedClient) -> StrandedView:
    """Return a client that does not reach the gate, in words that are safe to show."""
    host, topic = printable(client.host), printable(client.topic)[: 2 * _SHOWN_MAX]
    return StrandedView(
        host=host,
        topic=topic,
        lookups=client.lookups,
        sentence=f"clients at {host} have looked {topic} up {client.lookups} times and do not come to "
        "this gate, where they are led",
        fix=_STRANDED_FIX,
    )


def uncounted_view(namespace: str) -> UncountedView:
    """Return a namespace of which the broker's metrics miss topics, in words that are safe to show."""
    name = printable(namespace)
    return UncountedView(
        namespace=name,
        sentence=f"topics of {name} have names that the broker's metrics cannot hold (a line feed, or a "
        "backslash at the end), so traffic of theirs that goes round the gate is not seen",
        fix=_UNCOUNTED_FIX,
    )


@dataclass(frozen=True, slots=True)
class ListedPublisher:
    """A publisher in a topic's statistics.

    Args:
        topic: the topic's full name.
        name: of the producer.
        host: of its connection, as the broker sees it; empty is unknown.
        port: of its connection; 0 is unknown.
        client: library and version.
        messages: its rate per second, as of the broker's last update.
        properties: of the producer.
    """

    topic: str
    name: str
    host: str = ""
    port: int = 0
    client: str = ""
    messages: float = 0.0
    properties: Mapping[str, str] = field(default_factory=dict)

    def shown(self) -> str:
        """Return name, address and library, safe to show."""
        name, host = printable(self.name)[:_SHOWN_MAX], printable(self.host) or "?"
        said = f"producer {name} of {host}:{self.port}"
        return f"{said} ({printable(self.client)[:_SHOWN_MAX]})" if self.client else said


@dataclass(frozen=True, slots=True)
class WayFinding:
    """The way that a namespace's publishers show.

    Args:
        way: the most likely one.
        example: a publisher that takes it; None if there is none.
        replicated_permille: the part of the difference that geo-replication published.
        trouble: why the statistics could not be read; empty if they could.
    """

    way: Way = Way.UNSEEN
    example: ListedPublisher | None = None
    replicated_permille: int = 0
    trouble: str = ""

    @property
    def sentence(self) -> str:
        """Return the way in words, with its example."""
        if self.trouble:
            return f"way unknown: {printable(self.trouble)[: 2 * _SHOWN_MAX]}"
        said = f"most likely {self.way.text}"
        return said if self.example is None else f"{said}: {self.example.shown()}"


@dataclass(frozen=True, slots=True)
class KnownOrigins:
    """The known origins of the connections that a broker may list.

    Args:
        brokers: the broker's own hosts.
        replication_prefix: the beginning of the names of geo-replication's producers.
        is_peer: whether the operator named a host as another cluster's broker.
    """

    brokers: Collection[str] = ()
    replication_prefix: str = "pulsar.repl"
    is_peer: Callable[[str], bool] = lambda _host: False


def find(
    publishers: Iterable[ListedPublisher],
    gates: Collection[tuple[str, int]],
    surroundings: KnownOrigins,
) -> WayFinding:
    """Return the most likely way.

    Args:
        publishers: of the namespace's topics.
        gates: the addresses from which the gate speaks to the broker.
        surroundings: of the broker.
    """
    rates: Counter[Way] = Counter()
    numbers: Counter[Way] = Counter()
    examples: dict[Way, ListedPublisher] = {}
    #: Of the direct publishers, by host.
    libraries: defaultdict[str, set[str]] = defaultdict(set)
    exempt_rate = exempt_number = 0
    for publisher in publishers:
        if (publisher.host, publisher.port) in gates:
            continue
        rate = round(publisher.messages * 1000)
        way = _way_of(publisher, surroundings)
        if way is Way.REPLICATION and surroundings.is_peer(publisher.host):
            exempt_rate += rate
            exempt_number += 1
            continue
        rates[way] += rate
        numbers[way] += 1
        if way is Way.DIRECT and publisher.host and publisher.client:
            libraries[publisher.host].add(publisher.client)
        known = examples.get(way)
        if known is None or publisher.messages > known.messages:
            examples[way] = publisher
    if not numbers:
        return WayFinding(replicated_permille=1000 if exempt_number else 0)
    has_rates = rates.total() + exempt_rate > 0
    exempt, others = (exempt_rate, rates.total()) if has_rates else (exempt_number, numbers.total())
    way = max(numbers, key=lambda each: (rates[each], numbers[each]))
    example = examples[way]
    if way is Way.DIRECT and len(libraries[example.host]) > 1:
        way = Way.PROXY
    return WayFinding(way, example, exempt * 1000 // (exempt + others))


def _way_of(publisher: ListedPublisher, surroundings: KnownOrigins) -> Way:
    if publisher.name.startswith(surroundings.replication_prefix):
        return Way.REPLICATION
    if publisher.properties.get(_APPLICATION, "").startswith(_FUNCTIONS):
        return Way.FUNCTIONS
    is_own = publisher.host in surroundings.brokers and publisher.client.startswith(_JAVA)
    return Way.INSIDE_BROKER if is_own else Way.DIRECT

"""Random sequences of valid commands with colliding ids: the gate and a real broker come to one view.

A gate of this process stands before a real broker. A raw client says valid commands in random order, with
few ids for producers, consumers and requests, on topics of two namespaces, and waits for answers or not.
When all has settled,

* the gate's participants are the broker's publishers and consumers of this connection, topic by topic;
* each group was charged at least for what the broker counted of its topics, so no message passed as
  another group's; and for no more than was sent to them.

`python -m tests.attacks.sequences --cases 1000 --seed 7` runs many.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from coordinator.core.model import Attachments, MonitoringClass, Rates
from coordinator.gate.server.proxy import Gate
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.state import Broker
from deploy.local.topics import Topics
from tests.clients.decoding import command_of
from tests.gate import peer
from tests.gate.conftest import Story
from tests.gate.gates import gate_to, started
from tests.gate.server.test_proxy import read_frame

TENANT = "sequences"
GROUPS = {f"{TENANT}/one": "one", f"{TENANT}/two": "two"}
_SETTLES_S = 40.0
"""Longer than any busy machine needs: only views that stay apart use it up."""
_UNTOLD = (3, 9, 18, 19, 22, 24, 30, 33, 35)
_ENDS_A_REQUEST = (13, 14)
_NOWHERE = "persistent://nowhere/nowhere/t"


@dataclass(frozen=True)
class Site:
    """A broker, topics that it owns, and the gate before it."""

    broker: Broker
    topics: Sequence[str]
    gate: Gate
    http: httpx.AsyncClient

    async def stats(self, topic: str) -> Any:
        """The broker's statistics of a topic."""
        path = topic.replace("://", "/")
        answer = await self.http.get(f"{self.broker.web_url}/admin/v2/{path}/stats")
        return answer.json() if answer.status_code == 200 else {}

    async def unload(self, topic: str) -> None:
        """Have the broker close everything on a topic."""
        path = topic.replace("://", "/")
        await self.http.put(f"{self.broker.web_url}/admin/v2/{path}/unload", follow_redirects=True)


@dataclass
class View:
    """The participants of each topic: producers by id, consumers by subscription."""

    producers: Counter[tuple[str, int]] = field(default_factory=Counter)
    consumers: Counter[tuple[str, str]] = field(default_factory=Counter)


def topics_of(cluster: Cluster, broker: Broker, each: int = 2) -> list[str]:
    """Topics of both namespaces that this broker owns."""
    topics = Topics(cluster.brokers)
    topics.create_tenant(TENANT)
    found = []
    for namespace in GROUPS:
        topics.create_namespace(namespace, bundles=1)
        names = [f"persistent://{namespace}/t{number}" for number in range(each)]
        for name in names:
            topics.create_topic(name)
        topics.move(names[0], broker)
        found += names
    return found


class Life:
    """One client's life.

    Args:
        dice: decides everything.
        site: where it happens.
    """

    def __init__(self, dice: random.Random, site: Site) -> None:
        self._dice = dice
        self._site = site
        self._request_id = 100
        self._sequence_id = 0
        self._came = 0
        self._answers: Counter[int] = Counter()
        self._asked: dict[int, int] = {}
        #: Requests for a subscription that have no answer yet.
        self._subscribing: set[int] = set()
        #: Producer ids that are open, as far as a client can tell.
        self._open: set[int] = set()
        self._news = asyncio.Event()
        self.said: list[str] = []
        self.sent: Counter[str] = Counter()
        self.closed = False

    async def live(self, port: int) -> None:
        """Connect, say things, and stay connected until `settled` has looked."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._listening = asyncio.create_task(self._listen())
        self._write("CONNECT", peer.connect())
        await self._pause(lambda: self._answers[3] > 0)
        for _ in range(self._dice.randrange(3, 60)):
            if self.closed:
                return
            await self._say_something()

    async def leave(self) -> None:
        """Hang up."""
        self._writer.close()
        self._listening.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await self._listening

    async def _say_something(self) -> None:
        name = self._dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if name in {"unload", "unsubscribe"}:
            # A broker (4.2.4) that unloads a topic while a subscription to it is made may answer SUCCESS,
            # close nothing, and keep the consumer's id, though no topic has the consumer. One that ends a
            # subscription meanwhile takes the consumer off it, answers that it is busy, and keeps the id.
            await self._pause(lambda: not self._subscribing, seconds=5.0)
        if name == "unload":
            topic = self._dice.choice(self._site.topics)
            self.said.append(f"unload {topic}")
            await self._site.unload(topic)
            return
        if name == "wait":
            came = self._came
            await self._pause(lambda: self._came > came)
            return
        if name == "send" and not self._open and self._dice.random() < 0.9:
            return
        frame, text = getattr(self, f"_{name}")()
        self._write(f"{name}{text}", frame)

    def _write(self, text: str, frame: bytes) -> None:
        self.said.append(text)
        with suppress(OSError):
            self._writer.write(frame)

    async def _pause(self, condition: Callable[[], bool], seconds: float = 0.3) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition() and not self.closed:
                    self._news.clear()
                    await self._news.wait()

    async def _listen(self) -> None:
        while frame := await read_frame(self._reader):
            command = command_of(frame)
            self._came += 1
            self._answers[command.kind] += 1
            if command.kind not in _UNTOLD:
                numbers = [each.value for each in command.fields if isinstance(each.value, int)]
                self.said.append(f"< {command.name}{numbers}")
            if command.kind == 18:
                self._writer.write(peer.PONG)
            elif command.kind in _ENDS_A_REQUEST:
                self._subscribing.discard(command.number(1) or 0)
            elif command.kind == 17:
                self._open.add(self._asked.get(command.number(1) or 0, 0))
            elif command.kind == 15:
                self._open.discard(command.number(1) or 0)
            self._news.set()
        self.closed = True
        self._news.set()

    # What it may say

    def _id(self) -> int:
        return self._dice.randrange(1, 4)

    def _request(self) -> int:
        if self._dice.random() < 0.1:
            return self._dice.randrange(1, 5)
        self._request_id += 1
        return self._request_id

    def _topic(self) -> str:
        topic = self._dice.choice(self._site.topics)
        spelling = self._dice.random()
        if spelling < 0.1:
            return topic.removeprefix("persistent://")
        return _NOWHERE if spelling < 0.15 else topic

    def _producer(self) -> tuple[bytes, tuple[object, ...]]:
        topic, number, request = self._topic(), self._id(), self._request()
        self._asked[request] = number
        return peer.producer(topic, number, request), (topic, number, request)

    def _close_producer(self) -> tuple[bytes, tuple[object, ...]]:
        number, request = self._id(), self._request()
        self._open.discard(number)
        return peer.close_producer(number, request), (number, request)

    def _send(self) -> tuple[bytes, tuple[object, ...]]:
        # One for an unknown id ends the connection, and with it the sequence.
        known = sorted(self._open) if self._dice.random() < 0.97 else []
        number = self._dice.choice(known) if known else self._id()
        self._sequence_id += 1
        return peer.send(number, self._sequence_id, checksum=False), (number,)

    def _subscribe(self) -> tuple[bytes, tuple[object, ...]]:
        topic, number, request = self._topic(), self._id(), self._request()
        subscription, kind = self._dice.choice("ab"), self._dice.choice((0, 1, 1, 1))
        self._subscribing.add(request)
        frame = peer.subscribe(topic, number, request, subscription, kind)
        return frame, (topic, number, request, subscription, kind)

    def _close_consumer(self) -> tuple[bytes, tuple[object, ...]]:
        number, request = self._id(), self._request()
        return peer.close_consumer(number, request), (number, request)

    def _unsubscribe(self) -> tuple[bytes, tuple[object, ...]]:
        number, request = self._id(), self._request()
        return peer.unsubscribe(number, request), (number, request)

    def _flow(self) -> tuple[bytes, tuple[object, ...]]:
        number, permits = self._id(), self._dice.choice((1, 10, 1000))
        return peer.flow(number, permits), (number, permits)

    def _ack(self) -> tuple[bytes, tuple[object, ...]]:
        number, message = self._id(), peer.message((1, 1), (2, self._dice.randrange(9)))
        return peer.command(10, (1, number), (2, 0), (3, message)), (number,)

    def _redeliver(self) -> tuple[bytes, tuple[object, ...]]:
        number = self._id()
        return peer.command(20, (1, number)), (number,)

    def _seek(self) -> tuple[bytes, tuple[object, ...]]:
        number, request = self._id(), self._request()
        return peer.command(28, (1, number), (2, request), (4, 1)), (number, request)

    def _last(self) -> tuple[bytes, tuple[object, ...]]:
        number, request = self._id(), self._request()
        return peer.command(29, (1, number), (2, request)), (number, request)

    def _lookup(self) -> tuple[bytes, tuple[object, ...]]:
        topic, request = self._topic(), self._request()
        kind = self._dice.choice((21, 23))
        return peer.command(kind, (1, topic), (2, request)), (topic, request)

    def _list(self) -> tuple[bytes, tuple[object, ...]]:
        namespace, request = self._dice.choice((*GROUPS, "nowhere/nowhere")), self._request()
        return peer.command(32, (1, request), (2, namespace)), (namespace, request)

    def _schema(self) -> tuple[bytes, tuple[object, ...]]:
        topic, request = self._topic(), self._request()
        return peer.command(34, (1, request), (2, topic)), (topic, request)


_WEIGHTS = {
    "producer": 8, "close_producer": 4, "send": 10, "subscribe": 6, "close_consumer": 3,
    "unsubscribe": 3, "flow": 4, "ack": 2, "redeliver": 1, "seek": 1.5, "last": 1, "lookup": 1,
    "list": 1, "schema": 1, "wait": 8, "unload": 0.3,
}  # fmt: skip


def seen_by_gate(site: Site) -> View:
    """The participants of the gate's connections."""
    view = View()
    for connection in site.gate._connections:
        participants = connection.session._participants
        for number, producer in participants.producers.items():
            view.producers[_full(producer.topic), number] += 1
        for consumer in participants.consumers.values():
            view.consumers[_full(consumer.topic), consumer.subscription] += 1
    return view


async def seen_by_broker(site: Site) -> tuple[View, Counter[str]]:
    """The participants of all topics, and what each group's topics have counted."""
    view, counted = View(), Counter[str]()
    for topic in site.topics:
        stats = await site.stats(topic)
        counted[group_of(topic)] += stats.get("msgInCounter", 0)
        for publisher in stats.get("publishers", ()):
            view.producers[topic, publisher["producerId"]] += 1
        for name, subscription in stats.get("subscriptions", {}).items():
            if subscription["consumers"]:
                view.consumers[topic, name] += len(subscription["consumers"])
    return view, counted


def group_of(topic: str) -> str:
    """The group of a topic of ours."""
    return GROUPS["/".join(topic.split("/")[2:4])]


def _full(topic: str) -> str:
    return topic if "://" in topic else f"persistent://{topic}"


def charged(site: Site) -> Counter[str]:
    """The gate's counts of each group since the last time."""
    return Counter(
        {
            traffic.group: traffic.messages
            for traffic in site.gate.collect()
            if traffic.monitoring_class is MonitoringClass.PUBLISH
        }
    )


async def run_case(seed: str, site: Site) -> str:
    """Run one sequence and return how its connection ended.

    Raises:
        AssertionError: gate and broker do not agree.
    """
    charged(site)
    _, before = await seen_by_broker(site)
    life = Life(random.Random(seed), site)
    await life.live(site.gate.port)
    try:
        ours, theirs, after = View(), View(), before
        async with asyncio.timeout(60):
            deadline = asyncio.get_running_loop().time() + _SETTLES_S
            agreed = 0
            while agreed < 2:  # it may have agreed before something under way arrived
                await asyncio.sleep(0.03)
                ours = seen_by_gate(site)
                theirs, after = await seen_by_broker(site)
                agreed = agreed + 1 if ours == theirs == seen_by_gate(site) else 0
                if asyncio.get_running_loop().time() > deadline:
                    break
        told = f"seed {seed}: {life.said}"
        assert ours == theirs, f"the gate has {ours}, the broker {theirs}; {told}"
        if not any(text.startswith("unload") for text in life.said):  # counters begin anew then
            taken = charged(site)
            for group in GROUPS.values():
                counted = after[group] - before[group]
                assert counted <= taken[group], f"{group}: {counted} counted, {taken}; {told}"
    finally:
        await life.leave()
    return "closed" if life.closed else "open"


async def at_site(cluster: Cluster, work: Callable[[Site], Any]) -> None:
    """Do something with a gate before the cluster's first broker."""
    broker = cluster.brokers[0]
    topics = await asyncio.to_thread(topics_of, cluster, broker)
    async with (
        started(gate_to(broker.gate_upstream_port, listener=Story())) as gate,
        httpx.AsyncClient(trust_env=False, timeout=30) as http,
    ):
        gate.set_attachments(Attachments({}, GROUPS))
        for group in GROUPS.values():
            gate.set_limits(group, Rates(100_000, None, 100_000, None))
        await work(Site(broker, topics, gate, http))


async def run(cluster: Cluster, cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Run many cases, whose seeds are ``seed:0`` and so on.

    Returns:
        How many ended in which way, and what was said where gate and broker did not agree.
    """
    ends: Counter[str] = Counter()
    disagreements: list[str] = []

    async def work(site: Site) -> None:
        for case in range(cases):
            try:
                ends[await run_case(f"{seed}:{case}", site)] += 1
            except AssertionError as disagreement:
                disagreements.append(str(disagreement))

    await at_site(cluster, work)
    return ends, disagreements


def main() -> int:
    """Run many cases and say how they ended; return 1 if gate and broker disagreed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cluster", type=Path, help="state directory; a cluster of its own if not given"
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}\n")
    sys.stdout.flush()
    with ExitStack() as stack:
        if options.cluster:
            cluster = Cluster(options.cluster)
        else:
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="sequences-")))
            cluster = stack.enter_context(Cluster.start(ClusterOptions(state_dir=directory)))
        ends, disagreements = asyncio.run(run(cluster, options.cases, options.seed))
    sys.stdout.write("\n".join([*disagreements, f"{dict(ends)}, {len(disagreements)} disagreed\n"]))
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())

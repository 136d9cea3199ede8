"""A Pulsar application with the C++ client's Python binding, any release from 3.2 on.

`python -m tests.clients.programs.client SERVICE_URL NAMESPACE [SCENE...] [-SCENE...]`, with `pulsar`
of the release to try on the path: these scenes, or all but those of `_ONLY_BY_NAME`; `-SCENE` leaves one
out. Topic `parts` of the namespace has three partitions. One line of JSON per scene goes to standard
output; a line such as `unload TOPIC` asks the caller to unload a topic and to answer with a line.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import sys
import threading
import time
import traceback
from typing import Any

import pulsar
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String

from tests.clients.programs.application import (
    SCENES,
    TIMEOUT_MS,
    Application,
    Receipts,
    Skipped,
    expect,
    numbers,
    receive,
    scene,
    send_all,
)
from tests.clients.programs.held import HELD

#: Scenes that take a minute, or a caller that limits the topic.
_ONLY_BY_NAME = ("idle", *HELD)


@scene
def plain(app: Application) -> None:
    consumer = app.subscribe(app.topic("plain"), "s")
    app.publish(app.topic("plain"), 50)
    expect(receive(consumer, 50) == numbers(50), "order")
    consumer.close()


@scene
def partitioned(app: Application) -> None:
    consumer = app.subscribe(app.topic("parts"), "s", "Shared")
    mode = pulsar.PartitionsRoutingMode.RoundRobinDistribution
    app.publish(app.topic("parts"), 60, message_routing_mode=mode)
    expect(sorted(receive(consumer, 60)) == sorted(numbers(60)), "all")
    consumer.unsubscribe()


@scene
def batched(app: Application) -> None:
    consumer = app.subscribe(app.topic("batched"), "s")
    producer = app.client.create_producer(
        app.topic("batched"), batching_enabled=True, batching_max_publish_delay_ms=20
    )
    send_all(producer, 500)
    producer.close()
    expect(receive(consumer, 500) == numbers(500), "order")
    consumer.close()


@scene
def compressed(app: Application) -> None:
    consumer = app.subscribe(app.topic("compressed"), "s")
    for index, name in enumerate(("LZ4", "ZLib", "ZSTD", "SNAPPY")):
        app.publish(
            app.topic("compressed"), 20, index * 20,
            compression_type=getattr(pulsar.CompressionType, name), batching_enabled=index % 2 == 0,
        )  # fmt: skip
    expect(receive(consumer, 80) == numbers(80), "order")
    consumer.close()


@scene
def chunked(app: Application) -> None:
    if "chunking_enabled" not in inspect.signature(app.client.create_producer).parameters:
        raise Skipped
    consumer = app.subscribe(app.topic("chunked"), "s")
    producer = app.client.create_producer(
        app.topic("chunked"), chunking_enabled=True, batching_enabled=False
    )
    producer.send(b"x" * (12 << 20))
    producer.close()
    expect(len(consumer.receive(TIMEOUT_MS).data()) == 12 << 20, "size")
    consumer.close()


@scene
def delayed(app: Application) -> None:
    consumer = app.subscribe(app.topic("delayed"), "s", "Shared")
    producer = app.client.create_producer(app.topic("delayed"))
    began = time.time()
    producer.send(b"late", deliver_at=int((time.time() + 3) * 1000))
    message = consumer.receive(TIMEOUT_MS)
    expect(time.time() - began > 1, "too early")
    consumer.acknowledge(message)
    producer.close()
    consumer.close()


@scene
def keyed(app: Application) -> None:
    topic = app.topic("keyed")
    ones = [app.subscribe(topic, "s", "KeyShared") for _ in range(2)]
    producer = app.client.create_producer(
        topic, batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased
    )
    for number in range(40):
        producer.send_async(str(number).encode(), lambda *_: None, partition_key=f"k{number % 7}")
    producer.flush()
    received = 0
    deadline = time.time() + 20
    while received < 40 and time.time() < deadline:
        for one in ones:
            try:
                one.acknowledge(one.receive(200))
                received += 1
            except pulsar.Timeout:
                pass
    expect(received == 40, received)
    producer.close()
    for one in ones:
        one.close()


@scene
def failover(app: Application) -> None:
    """Of two the broker chooses by a hash of the topic's name, a second after the second came."""
    topic = app.topic("failover")
    first = app.subscribe(topic, "s", "Failover", consumer_name="a")
    app.publish(topic, 30)
    expect(receive(first, 30) == numbers(30), "the first has all")
    second = app.subscribe(topic, "s", "Failover", consumer_name="b")
    first.close()
    app.publish(topic, 10)
    expect(receive(second, 10) == numbers(10), "then the second")
    second.unsubscribe()


@scene
def busy(app: Application) -> None:
    """A refused publish is an error of its own, and the connection goes on."""
    topic = app.topic("busy")
    first = app.subscribe(topic, "s")
    for _ in range(3):
        try:
            app.subscribe(topic, "s")
            raise AssertionError("two exclusive consumers")
        except pulsar.ConsumerBusy:
            pass
    named = app.client.create_producer(topic, producer_name="named")
    try:
        app.client.create_producer(topic, producer_name="named")
        raise AssertionError("two producers of one name")
    except pulsar.ProducerBusy:
        pass
    send_all(named, 10)
    expect(receive(first, 10) == numbers(10), "the first goes on")
    named.close()
    first.close()


@scene
def reader(app: Application) -> None:
    topic = app.topic("reader")
    app.publish(topic, 30)
    one = app.client.create_reader(topic, pulsar.MessageId.earliest)
    got = []
    while one.has_message_available():
        got.append(one.read_next(TIMEOUT_MS).data())
    expect(got == numbers(30), got)
    one.seek(pulsar.MessageId.earliest)
    expect(one.read_next(TIMEOUT_MS).data() == b"0", "from the start again")
    one.close()


@scene
def seek(app: Application) -> None:
    topic = app.topic("seek")
    consumer = app.subscribe(topic, "s")
    app.publish(topic, 30)
    ids = [consumer.receive(TIMEOUT_MS) for _ in range(30)]
    consumer.seek(pulsar.MessageId.earliest)
    expect(receive(consumer, 30) == numbers(30), "all again")
    consumer.seek(ids[10].publish_timestamp())
    consumer.receive(TIMEOUT_MS)
    consumer.unsubscribe()


@scene
def redelivery(app: Application) -> None:
    topic = app.topic("redelivery")
    consumer = app.subscribe(topic, "s", "Shared", negative_ack_redelivery_delay_ms=200)
    app.publish(topic, 20)
    for message in [consumer.receive(TIMEOUT_MS) for _ in range(20)]:
        consumer.negative_acknowledge(message)
    expect(sorted(receive(consumer, 20, ack=False)) == sorted(numbers(20)), "after the nack")
    consumer.redeliver_unacknowledged_messages()
    expect(sorted(receive(consumer, 20)) == sorted(numbers(20)), "once more")
    consumer.close()


@scene
def cumulative(app: Application) -> None:
    topic = app.topic("cumulative")
    consumer = app.subscribe(topic, "s")
    producer = app.client.create_producer(topic, batching_enabled=True)
    send_all(producer, 40)
    messages = [consumer.receive(TIMEOUT_MS) for _ in range(40)]
    consumer.acknowledge_cumulative(messages[-1])
    consumer.close()
    again = app.subscribe(topic, "s")
    send_all(producer, 1, 40)
    expect(receive(again, 1) == [b"40"], "what was acknowledged stays so")
    producer.close()
    again.close()


@scene
def batch_index(app: Application) -> None:
    topic = app.topic("batch-index")
    options = {"batch_index_ack_enabled": True}
    if "batch_index_ack_enabled" not in inspect.signature(app.client.subscribe).parameters:
        raise Skipped
    consumer = app.subscribe(topic, "s", "Shared", **options)
    producer = app.client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=100
    )
    send_all(producer, 10)
    for index in range(10):
        message = consumer.receive(TIMEOUT_MS)
        if index % 2:
            consumer.acknowledge(message)
    consumer.close()
    again = app.subscribe(topic, "s", "Shared", **options)
    expect(sorted(receive(again, 5)) == [b"0", b"2", b"4", b"6", b"8"], "the others come again")
    again.close()
    producer.close()


@scene
def queues(app: Application) -> None:
    topic = app.topic("queues")
    app.publish(topic, 30)
    for size in (0, 1, 1000):
        consumer = app.subscribe(topic, f"s{size}", receiver_queue_size=size)
        got = []
        for _ in range(30):
            message = consumer.receive() if size == 0 else consumer.receive(TIMEOUT_MS)
            got.append(message.data())
            consumer.acknowledge(message)
        expect(got == numbers(30), got)
        consumer.close()


@scene
def unloaded(app: Application) -> None:
    """Producers and consumers on one connection outlive their topic's unloading, under load."""
    topic = app.topic("unloaded")
    kinds = ("Exclusive", "Shared", "KeyShared", "Failover")
    consumers = [app.subscribe(topic, kind, kind) for kind in kinds]
    other = app.client.create_producer(app.topic("unloaded-other"))
    producers = [app.client.create_producer(topic) for _ in range(3)]
    receipts = Receipts()
    for turn in range(3):
        for _ in range(200):
            for producer in producers:
                receipts.send(producer)
            other.send_async(b"o", lambda *_: None)
            time.sleep(0.001)
        if turn < 2:
            app.ask("unload", topic)
    expect(receipts.all_came(), f"{len(receipts.acknowledged)} of {receipts.sent} acknowledged")
    for consumer in consumers:
        got: set[bytes] = set()
        while got < receipts.acknowledged:
            got.update(receive(consumer, 1))
    for each in (*producers, *consumers, other):
        each.close()


@scene
def closing(app: Application) -> None:
    """Producers and consumers are closed while others of the client are in use."""
    topic = app.topic("closing")
    client = app.connect()
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    first = client.create_producer(topic)
    second = client.create_producer(topic)
    for number in range(50):
        first.send_async(str(number).encode(), lambda *_: None)
    first.close()
    consumer.receive(TIMEOUT_MS)
    consumer.close()
    second.send(b"last")
    third = client.create_producer(topic)
    for number in range(50):
        third.send_async(str(number).encode(), lambda *_: None)
    consumer = client.subscribe(topic, "s")
    consumer.receive(TIMEOUT_MS)
    client.subscribe(topic, "t").unsubscribe()
    client.close()


@scene
def many(app: Application) -> None:
    """Many producers and consumers on one connection, opened at once."""
    opened: list[Any] = []
    failed: list[object] = []
    done = threading.Semaphore(0)

    def on_opened(result: object, thing: object) -> None:
        (opened if result == pulsar.Result.Ok else failed).append(thing or result)
        done.release()

    def open_one(number: int) -> None:
        try:
            opened.append(app.client.create_producer(app.topic(f"many-{number % 5}")))
            opened.append(app.subscribe(app.topic(f"many-{number % 5}"), f"s{number}"))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=open_one, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not failed, failed)
    for each in opened:
        if isinstance(each, pulsar.Producer):
            each.send(b"x")
    for each in opened:
        each.close()


class Example(Record):  # type: ignore[misc]
    """The value that the schema scene sends."""

    name = String()
    number = Integer()


@scene
def schemas(app: Application) -> None:
    for kind in (JsonSchema, AvroSchema):
        topic = app.topic(f"schema-{kind.__name__}")
        consumer = app.subscribe(topic, "s", schema=kind(Example))
        producer = app.client.create_producer(topic, schema=kind(Example))
        producer.send(Example(name="a", number=3))
        expect(consumer.receive(TIMEOUT_MS).value().number == 3, "value")
        producer.close()
        consumer.close()


@scene
def several_topics(app: Application) -> None:
    topics = [app.topic(f"several-{n}") for n in range(3)]
    for topic in topics:
        app.publish(topic, 5)
    consumer = app.subscribe(topics, "list", "Shared")
    expect(len(receive(consumer, 15)) == 15, "list")
    consumer.close()
    pattern = re.compile(app.topic("several-.*"))
    consumer = app.subscribe(pattern, "regex", "Shared", pattern_auto_discovery_period=1)
    expect(len(receive(consumer, 15)) == 15, "regex")
    consumer.unsubscribe()


@scene
def table_view(app: Application) -> None:
    if not hasattr(app.client, "create_table_view"):
        raise Skipped
    topic = app.topic("table")
    producer = app.client.create_producer(topic)
    producer.send(b"1", partition_key="a")
    view = app.client.create_table_view(topic)
    expect(view.get("a") == b"1", "value")
    view.close()
    producer.close()


@scene
def dead_letter(app: Application) -> None:
    policy = getattr(pulsar, "ConsumerDeadLetterPolicy", None)
    if policy is None:
        raise Skipped
    topic = app.topic("dead")
    consumer = app.subscribe(
        topic, "s", "Shared", negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=policy(2, app.topic("dead-letters"), "init"),
    )  # fmt: skip
    app.publish(topic, 1)
    letters = app.subscribe(app.topic("dead-letters"), "l")
    got = None
    deadline = time.time() + 20
    while got is None and time.time() < deadline:
        with contextlib.suppress(pulsar.Timeout):
            consumer.negative_acknowledge(consumer.receive(300))
        with contextlib.suppress(pulsar.Timeout):
            got = letters.receive(300)
    expect(got is not None, "no dead letter")
    consumer.close()
    letters.close()


@scene
def non_persistent(app: Application) -> None:
    topic = app.topic("np", "non-persistent")
    consumer = app.subscribe(topic, "s")
    app.publish(topic, 20)
    receive(consumer, 1)
    consumer.close()


@scene
def short_names(app: Application) -> None:
    """A name without domain and namespace, and one without domain."""
    short = f"short-{time.time_ns()}"
    for name in (short, f"{app.namespace}/{short}"):
        consumer = app.subscribe(name, "s")
        app.publish(name, 5)
        expect(receive(consumer, 5) == numbers(5), name)
        consumer.unsubscribe()


@scene
def access_modes(app: Application) -> None:
    topic = app.topic("access")
    modes = getattr(pulsar, "ProducerAccessMode", None)
    if modes is None:
        raise Skipped
    first = app.client.create_producer(topic, access_mode=modes.Exclusive)
    try:
        app.client.create_producer(topic, access_mode=modes.Exclusive)
        raise AssertionError("two exclusive producers")
    except pulsar.ProducerFenced:
        pass
    waiting: list[object] = []
    thread = threading.Thread(
        target=lambda: waiting.append(
            app.client.create_producer(topic, access_mode=modes.WaitForExclusive)
        )
    )
    thread.start()
    time.sleep(0.5)
    first.close()
    thread.join(20)
    expect(waiting, "the one who waits gets its turn")
    send_all(waiting[0], 5)
    taking = app.client.create_producer(topic, access_mode=modes.ExclusiveWithFencing)
    send_all(taking, 5)
    taking.close()


@scene
def idle(app: Application) -> None:
    """A connection outlives a minute without traffic."""
    consumer = app.subscribe(app.topic("idle"), "s")
    producer = app.client.create_producer(app.topic("idle"))
    time.sleep(70)
    send_all(producer, 5)
    expect(receive(consumer, 5) == numbers(5), "after a minute")
    producer.close()
    consumer.close()


def main(url: str, namespace: str, *arguments: str) -> None:
    """Run the scenes."""
    app = Application(url, namespace)
    wanted = [name for name in arguments if not name.startswith("-")]
    for name in wanted or [name for name in SCENES if name not in _ONLY_BY_NAME]:
        if f"-{name}" in arguments:
            continue
        began = time.monotonic()
        outcome: dict[str, object] = {"scene": name}
        try:
            SCENES[name](app)
            outcome["outcome"] = "done"
        except (Skipped, ImportError):
            outcome["outcome"] = "not in this release"
        except BaseException:
            outcome |= {"outcome": "failed", "why": traceback.format_exc(limit=-3)}
        outcome["seconds"] = round(time.monotonic() - began, 2)
        print(json.dumps(outcome), flush=True)
    app.client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A connection that goes on has each refusal counted, and logged once."""

from __future__ import annotations

from collections import Counter

import pytest

from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.protocol.commands import NAME_SIZE_MAX
from coordinator.gate.protocol.own_frames import INVALID_TOPIC_NAME, NOT_ALLOWED, error_frame
from coordinator.gate.protocol.refusals import EXPECTED, RefusalReason, Refusals
from tests.gate import peer
from tests.gate.conftest import BUS, TOPIC, Bench

Told = list[tuple[RefusalReason, str]]


def refusals(totals: Counter[RefusalReason]) -> tuple[Refusals, Told]:
    """Those of a connection, and what is told of them."""
    told: Told = []
    return Refusals(totals, lambda reason, detail: told.append((reason, detail))), told


def test_each_connection_is_told_once_for_itself() -> None:
    """A client in a loop fills no log; the counts are those of all."""
    totals: Counter[RefusalReason] = Counter()
    for _ in range(3):
        of_client, told = refusals(totals)
        for detail in ("x", "again"):
            of_client.count(RefusalReason.TOPIC_NAME, detail)
        assert told == [(RefusalReason.TOPIC_NAME, "x")]

    assert totals == {RefusalReason.TOPIC_NAME: 6}


@pytest.mark.parametrize("reason", [reason for reason in RefusalReason if reason in EXPECTED])
def test_what_happens_to_honest_clients_is_counted_only(reason: RefusalReason) -> None:
    """Limits, and frames that cross with a close of the broker."""
    totals: Counter[RefusalReason] = Counter()
    of_client, told = refusals(totals)

    of_client.count(reason, "x")

    assert (totals, told) == ({reason: 1}, [])


@pytest.mark.parametrize(
    "topic",
    ["", "persistent://", "a/b", "persistent://t/n/", "persistent://t/ /x", "other://t/n/x"],
)
@pytest.mark.parametrize("kind", ["PRODUCER", "SUBSCRIBE"])
def test_a_topic_that_pulsar_does_not_accept_is_refused(
    bench: Bench, kind: str, topic: str
) -> None:
    """The error is the broker's; a name without a group would count for none."""
    opens = peer.producer if kind == "PRODUCER" else peer.subscribe
    client = bench.client()

    assert client.sends(opens(topic), peer.PING) == [peer.PING]

    text = f"{kind}.topic {topic!r} is no topic name: use persistent://tenant/namespace/topic"
    assert client.client_got() == [error_frame(1, INVALID_TOPIC_NAME, text)]
    assert client.refusals == [(RefusalReason.TOPIC_NAME, text)]


@pytest.mark.parametrize("topic", [BUS, BUS.replace("non-p", "NON-P"), f"{BUS}-partition-3"])
def test_no_client_publishes_to_a_reserved_topic(bench: Bench, topic: str) -> None:
    """In no spelling: the broker never hears of it; consuming is another matter."""
    bench.groups = GroupTable(bench.story, reserved_topics=(BUS,))
    client = bench.client()

    assert client.sends(peer.producer(topic), peer.PING) == [peer.PING]

    text = (
        f"PRODUCER.topic {topic!r}: sidecars and brokers alone publish there, at the brokers' own "
        "listener (bus_listener_name)"
    )
    assert client.client_got() == [error_frame(1, NOT_ALLOWED, text)]
    assert client.refusals[0] == (RefusalReason.RESERVED_TOPIC, text)
    assert client.sends(peer.subscribe(topic)) == [peer.subscribe(topic)]


def test_other_topics_beside_a_reserved_one_are_published_to(bench: Bench) -> None:
    """The persistent one of the same name, and one whose name goes on."""
    bench.groups = GroupTable(bench.story, reserved_topics=(BUS,))

    for topic in (BUS.removeprefix("non-"), f"{BUS}-2"):
        assert bench.client().sends(peer.producer(topic)) == [peer.producer(topic)]


LONG = "x" * (NAME_SIZE_MAX + 1)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("PRODUCER.topic", peer.producer(f"persistent://t/n/{LONG}")),
        ("PRODUCER.producer_name", peer.producer(TOPIC, name=LONG)),
        ("SUBSCRIBE.topic", peer.subscribe(f"persistent://t/n/{LONG}")),
        ("SUBSCRIBE.subscription", peer.subscribe(TOPIC, subscription=LONG)),
    ],
)
def test_a_name_that_is_too_long_is_refused(bench: Bench, name: str, request_: bytes) -> None:
    """The gate keeps names, so they are bounded; the connection goes on."""
    client = bench.client()

    assert client.sends(request_, peer.PING) == [peer.PING]

    text = f"{name} is longer than {NAME_SIZE_MAX} bytes: use a shorter one"
    assert client.client_got() == [error_frame(1, INVALID_TOPIC_NAME, text)]
    assert bench.counters.refusals == {RefusalReason.NAME_TOO_LONG: 1}


def test_the_longest_name_passes(bench: Bench) -> None:
    """A bound that is reached is not exceeded."""
    bench.client().opens(peer.producer(TOPIC, name="x" * NAME_SIZE_MAX))

"""The limit that every partition has by default."""

from __future__ import annotations

import pytest

from coordinator.core.limiting.windows import LimitMode, maker_of
from coordinator.core.model import Rates
from coordinator.gate.limits import partitions
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.modes import Modes
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.limits.test_admission import run


def limit(bench: Bench, rates: Rates) -> None:
    """As the gate does it."""
    bench._scope_changed(bench.groups.scopes.partitions.set_rates(rates, bench.now_ns))


@pytest.mark.shows("service-partition/limits")
def test_each_partition_has_the_whole_limit_for_itself(bench: Bench) -> None:
    """Unlike the limit of a topic, which its partitions share."""
    limit(bench, Rates(publish_messages=100))
    client = bench.client()
    for index in (0, 1):
        client.opens(peer.producer(f"{TOPIC}-partition-{index}", index, index))
    bench.wait(1_000)
    sends = [peer.send(index, number) for number in range(50) for index in (0, 1)]
    passed = client.sends(*sends)
    for _ in range(200):
        bench.wait(5)
        passed += client.broker_got()
    assert sorted(passed) == sorted(sends)
    traffic = bench.groups.scopes.partitions.collect(bench.now_ns)
    assert {each.group: each.messages for each in traffic} == {
        f"{TOPIC}-partition-0": 50,
        f"{TOPIC}-partition-1": 50,
    }


def test_a_lifted_limit_lets_everything_pass_at_once(bench: Bench) -> None:
    """The gate stops counting by partition."""
    limit(bench, Rates(publish_messages=0))
    client = bench.producing()
    assert client.sends(peer.send()) == []
    limit(bench, Rates())
    assert client.broker_got() == [peer.send()]
    assert bench.groups.scopes.partitions.collect(bench.now_ns) == ()


def limiters(bench: Bench) -> list[str]:
    """The names of the limiters that exist."""
    return [group.name for group in bench.groups.scopes.partitions.groups()]


def open_and_close(bench: Bench, *topics: str) -> None:
    """Use names for a moment, one after the other, on a connection that ends."""
    client = bench.client()
    for number, topic in enumerate(topics, 1):
        client.opens(peer.producer(topic, number, number))
        client.is_sent(peer.close_producer(number, 0))
    client.session.close(bench.now_ns)


def leave_debt(bench: Bench, topic: str, messages: int = 100) -> None:
    """Publish a batch as soon as its topic's bucket is full enough, and leave."""
    client = bench.producing(topic)
    bench.wait(50)
    batch = peer.send(messages=messages)
    assert client.sends(batch) == [batch]
    client.session.close(bench.now_ns)


def test_an_unused_limiter_is_forgotten_a_second_after_it_owes_nothing(bench: Bench) -> None:
    """Names cannot pile up: each new one examines some that were unused for the longest."""
    limit(bench, Rates(publish_messages=100))
    open_and_close(bench, *(f"{TOPIC}-{number}" for number in range(100)))
    assert len(limiters(bench)) == 100
    for turn in range(2):  # seen to owe nothing, and seen again a second later
        bench.wait(1_000)
        open_and_close(bench, *(f"{TOPIC}-{turn}-{number}" for number in range(50)))
    assert not {f"{TOPIC}-{number}" for number in range(100)} & set(limiters(bench))
    assert len(limiters(bench)) <= 100


@pytest.mark.parametrize("mode", list(LimitMode))
def test_a_topic_that_is_closed_and_opened_again_keeps_its_debt(
    bench: Bench, mode: LimitMode
) -> None:
    """However many other names come in between; so no more passes than without closing."""
    bench.groups = GroupTable(bench.story, modes=Modes(topics=maker_of(mode)))
    limit(bench, Rates(publish_messages=100))
    passed = []
    for reopens in (False, True):
        topic = f"{TOPIC}-{reopens}"
        client = bench.producing(topic)
        bench.wait(50)
        numbers = iter(range(10_000))
        count = 0
        for turn in range(20):
            sends = [peer.send(1, next(numbers), messages=60) for _ in range(10)]
            count += len(client.sends(*sends))
            if reopens:
                client.session.close(bench.now_ns)
                open_and_close(bench, *(f"{TOPIC}-{turn}-{other}" for other in range(100)))
                client = bench.producing(topic)
            bench.wait(100)
            count += len(client.broker_got())
        passed.append(count)
        client.session.close(bench.now_ns)
    assert passed[1] <= passed[0]


def test_a_limiter_that_owes_is_kept_until_it_has_paid(bench: Bench) -> None:
    """A debt of 2.5 s holds the next message for that time, whatever names were opened in between."""
    limit(bench, Rates(publish_messages=100))
    leave_debt(bench, TOPIC, messages=250)
    for turn in range(23):
        bench.wait(100)
        open_and_close(bench, *(f"{TOPIC}-{turn}-{other}" for other in range(30)))
    client = bench.producing()
    assert client.sends(peer.send(1, 1)) == []
    bench.wait(100)
    assert client.broker_got() == []
    bench.wait(100)
    assert client.broker_got() == [peer.send(1, 1)]


def test_a_tenant_that_leaves_too_many_debts_has_one_limiter_for_its_new_topics(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together have the limit of one partition; other tenants have theirs as ever."""
    monkeypatch.setattr(partitions, "UNUSED_MAX", 20)
    limit(bench, Rates(publish_messages=100))
    for number in range(20):
        leave_debt(bench, f"{TOPIC}-{number}")
    fresh = [f"{TOPIC}-fresh-{number}" for number in range(5)]
    clients = [bench.producing(topic) for topic in (*fresh, "persistent://other/ns/topic")]

    assert limiters(bench)[20:] == [
        "persistent://tenant/(others)/(others)",
        "persistent://other/ns/topic",
    ]
    passed = run(bench, clients, 1_000)
    assert sum(passed[:5]) == pytest.approx(100, abs=6)
    assert passed[5] == pytest.approx(100, abs=6)

    for client in clients:
        client.session.close(bench.now_ns)
    for turn in range(20):  # each new name examines a few
        bench.wait(1_000)
        open_and_close(bench, f"{TOPIC}-again-{turn}")
    assert f"{TOPIC}-again-19" in limiters(bench)
    assert "persistent://tenant/(others)/(others)" not in limiters(bench)


def test_a_debt_of_the_shared_limiter_is_paid_before_a_topic_has_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To leave it and to come back gains nothing there either."""
    monkeypatch.setattr(partitions, "UNUSED_MAX", 2)
    limit(bench, Rates(publish_messages=100))
    for number in range(2):
        leave_debt(bench, f"{TOPIC}-{number}")
    sharing = bench.producing()
    for turn in range(5):
        bench.wait(1_000)
        open_and_close(bench, f"{TOPIC}-shares-{turn}")
    assert limiters(bench) == ["persistent://tenant/(others)/(others)"]
    leave_debt(bench, TOPIC)
    sharing.session.close(bench.now_ns)

    client = bench.producing()
    assert client.sends(peer.send(1, 1)) == []
    bench.wait(900)
    assert client.broker_got() == []
    bench.wait(100)
    assert client.broker_got() == [peer.send(1, 1)]


def test_a_limit_that_is_lifted_and_set_again_knows_no_limiter_of_before(bench: Bench) -> None:
    """A producer that had one may end meanwhile."""
    limit(bench, Rates(publish_messages=100))
    client = bench.producing()
    limit(bench, Rates())
    client.session.close(bench.now_ns)
    limit(bench, Rates(publish_messages=100))
    assert limiters(bench) == []
    bench.producing()
    assert limiters(bench) == [TOPIC]

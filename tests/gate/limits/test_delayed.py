"""Delayed messages: counted and limited apart, and what of them has no effect."""

from __future__ import annotations

import pytest

from coordinator.core.model import MonitoringClass
from coordinator.gate.engine.session import Session
from coordinator.gate.limits.delayed import TOPICS_MAX, DelayedMessages
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.modes import Modes
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.gate.protocol.frames import MalformedFrame
from coordinator.insight.model.delayed import DelayedTopic, DelayedView
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.helper import built

LATER = peer.PUBLISHED_MS + 60_000
OTHER = "persistent://tenant/ns/other"


def later(number: int = 0, producer_id: int = 1, deliver_at_ms: int = LATER) -> bytes:
    """A delayed SEND."""
    return peer.send(producer_id, number, deliver_at_ms=deliver_at_ms)


def prompt(number: int = 0, producer_id: int = 1) -> bytes:
    """A SEND that says nothing about its delivery."""
    return peer.send(producer_id, number)


@pytest.fixture
def apart(bench: Bench) -> Bench:
    """A gate where delayed messages count against the group named late."""
    bench.groups = GroupTable(bench.story, modes=Modes(delayed_group="late"))
    return bench


def counted(bench: Bench) -> dict[str, int]:
    """Messages that were admitted since the last time, by group, of publishing."""
    return {
        traffic.group: traffic.messages
        for traffic in bench.groups.collect(bench.now_ns)
        if traffic.monitoring_class is MonitoringClass.PUBLISH
    }


def view(bench: Bench) -> DelayedView:
    """Return the gate's counts, as the gate's own method returns them."""
    assert bench.groups.delayed is not None
    sessions: list[Session] = [client.session for client in bench.clients]
    hasty: dict[str, set[str]] = {}
    for topic, subscription in {pair for each in sessions for pair in each.hasty_subscriptions}:
        hasty.setdefault(topic, set()).add(subscription)
    return bench.groups.delayed.view(hasty)


def test_a_delayed_message_counts_for_its_group_and_for_that_of_delayed_ones(apart: Bench) -> None:
    """Any other message for its own group only."""
    apart.attach(ns="own")
    client = apart.producing()
    frames = [prompt(0), later(1), prompt(2), later(3), later(4)]
    assert client.sends(*frames) == frames
    assert counted(apart) == {"own": 5, "late": 3}


def test_a_delayed_message_that_never_came_is_given_back_to_both_groups(apart: Bench) -> None:
    """Its client has left in the middle of it."""
    apart.attach(ns="own")
    apart.limit("late", 1000)
    apart.wait(1_000)
    client = apart.producing()
    client.sends_on(peer.send(1, 0, 4_000, b"z" * 40_000, deliver_at_ms=LATER)[:200])
    client.session.close(apart.now_ns)

    assert counted(apart) == {"own": 0, "late": 0}


@pytest.mark.parametrize("deliver_at_ms", [LATER, peer.PUBLISHED_MS, 1, 0, -1])
def test_a_message_is_delayed_whatever_its_time_of_delivery_is(
    apart: Bench, deliver_at_ms: int
) -> None:
    """The past and 0 included, as a managed service has it."""
    apart.limit("late", 0)
    client = apart.producing()
    assert client.sends(later(deliver_at_ms=deliver_at_ms)) == []
    assert apart.counters.throttles[ThrottleReason.DELAYED_MESSAGES] == 1
    apart.limit("late", None)
    assert client.broker_got() == [later(deliver_at_ms=deliver_at_ms)]


def test_the_limit_of_delayed_messages_holds_nobody_else(apart: Bench) -> None:
    """Other producers of the connection go on, and so do messages without delay."""
    apart.limit("late", 0)
    client = apart.client()
    client.opens(peer.producer(TOPIC, 1, 1), peer.producer(OTHER, 2, 2))
    frames = [prompt(0), later(1), prompt(2), prompt(3, producer_id=2)]
    assert client.sends(*frames) == [frames[0], frames[3]]
    assert client.session.held_frames == 2  # the order of a producer's messages stays
    apart.limit("late", None)
    assert client.broker_got() == frames[1:3]


def test_delayed_messages_pass_at_their_own_rate(apart: Bench) -> None:
    """100 a second, of two producers, whatever else they send."""
    apart.limit("late", 100)
    clients = [apart.producing(TOPIC), apart.producing(OTHER)]
    apart.wait(1_000)
    for client in clients:
        client.sends(
            *(frame(2 * n + i) for n in range(200) for i, frame in enumerate((later, prompt)))
        )
    passed = []
    for client in clients:
        client.broker_got()
    before = counted(apart)["late"]
    apart.wait(1_000)
    passed = [frame for client in clients for frame in client.broker_got()]
    late = counted(apart)["late"]
    assert before <= 5
    assert 98 <= late <= 102
    assert len(passed) == pytest.approx(2 * late, abs=2)  # a prompt one goes with each


def test_a_producer_whose_next_message_is_not_delayed_waits_for_no_turn_of_delayed_ones(
    apart: Bench,
) -> None:
    """The frames behind a delayed message leave with it, up to the next delayed one."""
    apart.limit("late", 20)
    first, second = apart.producing(TOPIC), apart.producing(OTHER)
    apart.wait(1_000)
    first.sends(later(0))
    assert second.sends(later(0), *(prompt(n) for n in range(1, 50)), later(50), prompt(51)) == []
    first.sends(*(later(n) for n in range(1, 50)))
    apart.wait(60)
    assert second.broker_got() == [later(0), *(prompt(n) for n in range(1, 50))]
    assert second.session.held_frames == 2


def test_a_limit_on_all_messages_holds_delayed_ones_as_well(apart: Bench) -> None:
    """Each of its limits must admit a message."""
    apart.attach(ns="own")
    apart.limit("own", 0)
    client = apart.producing()
    assert client.sends(later(0), prompt(1)) == []
    apart.limit("late", 0)
    apart.limit("own", None)
    assert client.broker_got() == []
    apart.limit("late", 1_000)
    apart.wait(10)
    assert client.broker_got() == [later(0), prompt(1)]


def test_a_namespace_in_the_group_of_delayed_messages_counts_them_once(apart: Bench) -> None:
    """Its other messages do not count."""
    apart.attach(ns="late")
    client = apart.producing()
    client.sends(prompt(0), later(1))
    assert counted(apart) == {"late": 1}


def test_consumers_do_not_take_part_in_the_group_of_delayed_messages(apart: Bench) -> None:
    """It is a limit on publishing."""
    client = apart.client()
    client.opens(peer.subscribe(TOPIC))
    client.is_sent(peer.success(1), peer.delivery(1))
    assert apart.groups.collect(apart.now_ns) == ()


def test_geo_replication_is_exempt(apart: Bench) -> None:
    """As it is from every limit."""
    apart.limit("late", 0)
    client = apart.replicating()
    assert client.sends(later()) == [later()]
    assert client.session.held_frames == 0


def test_without_a_group_for_them_delayed_messages_are_messages(bench: Bench) -> None:
    """Like all others."""
    bench.attach(ns="own")
    client = bench.producing()
    assert client.sends(later()) == [later()]
    assert counted(bench) == {"own": 1}
    assert bench.groups.delayed is None


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_a_message_in_pieces_is_decided_once_its_metadata_is_there(
    apart: Bench, piece: int
) -> None:
    """However small the pieces, it is counted once."""
    client = apart.producing()
    data = later(0) + prompt(1) + later(2)
    for start in range(0, len(data), piece):
        client.sends_on(data[start : start + piece])
    assert client.broker_got() == [later(0), prompt(1), later(2)]
    assert counted(apart) == {"late": 2}
    assert view(apart).messages == 2


def test_what_was_due_when_it_was_published_is_told_by_topic(apart: Bench) -> None:
    """The producer's clock decides, which wrote both times."""
    first, second = apart.producing(TOPIC), apart.producing(OTHER)
    first.sends(later(0), later(1, deliver_at_ms=peer.PUBLISHED_MS), later(2, deliver_at_ms=0))
    second.sends(later(0), prompt(1))
    found = view(apart)
    assert (found.messages, found.due) == (4, 2)
    assert found.topics == (DelayedTopic(TOPIC, 3, 2), DelayedTopic(OTHER, 1, 0))


def test_held_messages_are_told_once(apart: Bench) -> None:
    """They count when they come, and not again when they pass."""
    apart.limit("late", 0)
    client = apart.producing()
    client.sends(later(0), later(1))
    assert view(apart).messages == 2
    apart.limit("late", None)
    client.broker_got()
    assert view(apart).messages == 2


def test_exclusive_and_failover_subscriptions_of_such_topics_are_told(apart: Bench) -> None:
    """While their consumers are connected; Shared and Key_Shared ones wait."""
    client = apart.producing()
    client.sends(later())
    for kind, name in enumerate(("exclusive", "shared", "failover", "key-shared")):
        client.opens(peer.subscribe(TOPIC, kind, kind + 10, subscription=name, kind=kind))
    client.opens(peer.subscribe(OTHER, 9, 19))
    (topic,) = view(apart).topics
    assert topic.hasty_subscriptions == ("exclusive", "failover")
    client.is_sent(peer.close_consumer(0, 0), peer.close_consumer(2, 0))
    (topic,) = view(apart).topics
    assert topic.hasty_subscriptions == ()


def test_beyond_so_many_topics_messages_are_counted_together() -> None:
    """Names cannot pile up, and no message is left out of the sums."""
    delayed = DelayedMessages()
    for number in range(TOPICS_MAX + 5):
        delayed.came(f"{TOPIC}-{number}", 2, is_due=number % 2 == 0)
    found = delayed.view({})
    assert len(found.topics) == TOPICS_MAX
    assert found.messages == 2 * (TOPICS_MAX + 5)
    assert found.due == 2 * (TOPICS_MAX // 2 + 3)


def test_delayed_messages_are_no_part_of_a_prompt_run() -> None:
    """Neither is a message whose metadata has not arrived in full."""
    scan = built("scan_prompt")
    data = prompt(0) + prompt(1) + later(2) + prompt(3)
    run = scan(data, 0, 10**6)
    assert (run.frames, run.end) == (2, len(prompt(0)) + len(prompt(1)))
    assert scan(data, run.end, 10**6) is None
    for deliver_at_ms in (0, 1, 2**62, -1):
        assert scan(later(0, deliver_at_ms=deliver_at_ms), 0, 10**6) is None
    assert scan(prompt(0)[:40], 0, 10**6) is None
    assert scan(prompt(0)[:-10], 0, 10**6).frames == 1
    assert built()(data, 0, 10**6).frames == 4


@pytest.mark.parametrize("cut", [1, 2])
def test_metadata_that_ends_inside_a_field_closes_the_connection(apart: Bench, cut: int) -> None:
    """The gate could not tell whether such a message is delayed."""
    client = apart.producing()
    metadata = peer.message((1, "p"), (2, 1), (3, 2), (19, LATER))[:-cut]
    payload = len(metadata).to_bytes(4, "big") + metadata
    broken = peer.frame(peer.message((1, 6), (6, peer.message((1, 1), (2, 0)))), payload)
    with pytest.raises(MalformedFrame):
        client.sends(broken)


def test_a_message_without_delay_gives_nothing_back_to_the_group_of_delayed_ones(
    apart: Bench,
) -> None:
    """It was paid in part when its namespace moved to another group."""
    apart.attach(ns="own")
    apart.limit("own", 1)
    client = apart.producing()
    client.sends(peer.send(1, 0, 20))
    apart.wait(3_000)
    assert counted(apart)["own"] > 0

    apart.attach(ns="another")

    assert client.broker_got() == [peer.send(1, 0, 20)]
    groups = [apart.groups.group(name).publish.messages for name in ("own", "another", "late")]
    assert groups == [0, 20, 0]

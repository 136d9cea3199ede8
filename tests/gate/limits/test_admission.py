"""Under the test's clock the fair queue keeps limits and turns, and forgets no producer."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Attachments
from tests.gate import peer
from tests.gate.conftest import MILLISECOND_NS, START_NS, TOPIC, Bench, Client

SECOND = 1000


def saturate(clients: list[Client], messages: int = 1) -> None:
    """Keep every client's producer supplied with held SENDs."""
    for client in clients:
        for _ in range(20 - client.session.held_frames):
            client.sends(peer.send(1, 0, messages, b"x" * 100))


def delivered(client: Client) -> int:
    """Return the number of SENDs that reached the broker since the last call."""
    return len([frame for frame in client.broker_got() if peer.kind_of(frame) == 6])


def run(
    bench: Bench, clients: list[Client], milliseconds: int, messages: int = 1, step: int = 5
) -> list[int]:
    """Saturate for a while; messages that passed, per client."""
    passed = [0] * len(clients)
    for _ in range(milliseconds // step):
        saturate(clients, messages)
        bench.wait(step)
        for number, client in enumerate(clients):
            passed[number] += delivered(client) * messages
    return passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("messages", "seconds"),
    [
        (1, 5),
        (400, 10),
        pytest.param(1, 60, marks=pytest.mark.verify),
        pytest.param(7, 60, marks=pytest.mark.verify),
        pytest.param(100, 60, marks=pytest.mark.verify),
    ],
)
def test_a_limit_is_kept_within_a_thousandth(bench: Bench, messages: int, seconds: int) -> None:
    """Saturated producers get neither more nor less, single messages and batches larger than a burst."""
    bench.limited(1000)
    clients = [bench.producing() for _ in range(3)]

    total = sum(run(bench, clients, seconds * SECOND, messages))

    assert abs(total - seconds * 1000) <= seconds + 50 + messages


@pytest.mark.slow
def test_a_byte_limit_is_kept_within_a_thousandth(bench: Bench) -> None:
    """The same for bytes."""
    bench.limited(size=100_000)
    frame = peer.send()
    size = len(frame) - 8 - int.from_bytes(frame[4:8], "big")
    clients = [bench.producing() for _ in range(2)]

    total = sum(run(bench, clients, 5 * SECOND)) * size

    assert abs(total - 500_000) <= 500 + 5000 + size


def test_a_burst_of_3000_frames_is_spread_out(bench: Bench) -> None:
    """apache/pulsar#26006: 3,000 frames in one read at 500/s; upstream let 1,416 + 1,584 through."""
    bench.limited(500)
    client = bench.producing()
    bench.wait(SECOND)

    seconds = [delivered_now := len(client.sends(*[peer.send()] * 3000))]
    for _ in range(6):
        bench.wait(SECOND)
        seconds.append(delivered(client))

    assert delivered_now == 25
    assert sum(seconds) == 3000
    assert all(a + b <= 2 * 500 + 25 for a, b in pairwise(seconds))


@pytest.mark.slow
@pytest.mark.shows("pip-322/fairness", "pip-82/inside-a-broker")
def test_producers_of_a_group_take_turns(bench: Bench) -> None:
    """They may share a connection or a topic, or not."""
    bench.limited(1000)
    clients = [bench.producing(TOPIC if n else f"{TOPIC}-other") for n in range(4)]

    passed = run(bench, clients, 3 * SECOND)

    assert max(passed) - min(passed) <= 1


@pytest.mark.slow
def test_large_messages_do_not_win(bench: Bench) -> None:
    """Of a byte limit each producer gets the same bytes, whatever the size of its messages."""
    bench.limited(size=1_000_000)
    contents = [b"x" * 100, b"x" * 1000, b"x" * 20_000]
    clients = [bench.producing() for _ in contents]
    passed = [0, 0, 0]
    for _ in range(800):
        for number, (client, content) in enumerate(zip(clients, contents, strict=True)):
            passed[number] += sizes(client)
            for _ in range(60 - client.session.held_frames):
                client.sends(peer.send(1, 0, content=content))
        bench.wait(5)

    assert sum(passed) == pytest.approx(4_000_000, rel=0.01)
    assert max(passed) - min(passed) <= 2 * 20_200


def sizes(client: Client) -> int:
    """Bytes that reached the broker since the last look, as Pulsar counts them."""
    return sum(len(f) - 8 - int.from_bytes(f[4:8], "big") for f in client.broker_got())


@pytest.mark.slow
def test_large_batches_do_not_win(bench: Bench) -> None:
    """Of a message limit each producer gets the same messages, in batches or one by one."""
    bench.limited(1000)
    batching, single = bench.producing(), bench.producing()
    passed = [0, 0]
    for _ in range(1000):
        saturate([batching], 100)
        saturate([single])
        bench.wait(5)
        passed[0] += 100 * delivered(batching)
        passed[1] += delivered(single)

    assert sum(passed) == pytest.approx(5000, abs=100)
    assert passed[0] == pytest.approx(passed[1], abs=200)


def test_an_earlier_time_alone_costs_a_producer_no_turns(bench: Bench) -> None:
    """A producer that used the limit alone for long shares it equally with a newcomer."""
    bench.limited(1000)
    early, late = bench.producing(), bench.producing()
    run(bench, [early], 4 * SECOND)

    passed = run(bench, [early, late], 2 * SECOND)

    assert passed[0] == pytest.approx(passed[1], abs=2)


@pytest.mark.shows("pip-322/fairness")
@pytest.mark.parametrize("tenants", [{}, {"tenant": "wide"}], ids=["one group", "two groups"])
def test_a_newcomer_does_not_overtake(bench: Bench, tenants: dict[str, str]) -> None:
    """Tokens belong to the producer that waits, whichever groups admit them both besides."""
    bench.attach(tenants, ns="limited")
    bench.limit("limited", 1000)
    bench.limit("wide", 1_000_000)
    early, late = bench.producing(), bench.producing()
    early.sends(peer.send())
    bench.now_ns += 4_000_000  # the tokens are there, the queue has not been woken yet

    assert late.sends(peer.send()) == []
    bench.wait(1)
    assert (delivered(early), delivered(late)) == (1, 1)


@pytest.mark.shows("pip-322/release")
def test_each_release_is_checked_again(bench: Bench) -> None:
    """One token releases one message, however many wait."""
    bench.limited(10)
    clients = [bench.producing() for _ in range(5)]
    saturate(clients)

    bench.wait(100)

    assert sum(map(delivered, clients)) == 1


def test_a_raised_limit_releases_at_once(bench: Bench) -> None:
    """apache/pulsar#25502: the old delay, here 5 s, must not be waited for."""
    bench.limited(100)
    client = bench.producing()
    bench.wait(SECOND)
    assert delivered_by(client, peer.send(messages=500)) == 1
    client.sends(peer.send(), peer.send())

    bench.limit("limited", None)

    assert delivered(client) == 2


def delivered_by(client: Client, frame: bytes) -> int:
    """Return the number of frames that reach the broker because of one."""
    return len(client.sends(frame))


def test_a_raised_rate_moves_the_wake_time(bench: Bench) -> None:
    """The debt stays, and is paid at the new rate."""
    bench.limited(10)
    client = bench.producing()
    bench.wait(SECOND)
    client.sends(peer.send(messages=50), peer.send())
    bench.limit("limited", 1000)

    bench.wait(60)

    assert delivered(client) == 1


@pytest.mark.slow
@pytest.mark.parametrize("wide", [1000, 300])
def test_all_groups_of_a_topic_must_admit(bench: Bench, wide: int) -> None:
    """The tenant's group binds its namespaces together, a namespace's group only itself."""
    bench.attach({"tenant": "wide"}, a="narrow")
    bench.limit("narrow", 200)
    bench.limit("wide", wide)
    in_both = bench.producing("persistent://tenant/a/t")
    in_wide = bench.producing("persistent://tenant/b/t")

    passed = run(bench, [in_both, in_wide], 5 * SECOND)

    both = min(1000, wide * 2.5)
    assert passed[0] == pytest.approx(both, rel=0.01)
    assert sum(passed) == pytest.approx(wide * 5, rel=0.01)


def test_a_producer_of_two_contended_groups_gets_its_turns(bench: Bench) -> None:
    """A producer that needs two contended groups gets its turns although others need only one."""
    bench.groups.attachments = Attachments(
        {"t1": "wide", "t2": "other"}, {"t1/n": "shared", "t2/n": "shared"}
    )
    for group in ("wide", "shared", "other"):
        bench.limit(group, 50)
    crossing = bench.producing("persistent://t1/n/x")
    rivals = [bench.producing("persistent://t2/n/y"), bench.producing("persistent://t1/m/z")]

    passed = run(bench, [crossing, *rivals], 10 * SECOND)

    assert min(passed) >= 100


def test_a_limit_of_zero_wakes_nobody_and_piles_up_nothing(bench: Bench) -> None:
    """Clients that come and go leave no state behind, although none is ever served."""
    bench.limited(0)
    for _ in range(100):
        client = bench.producing()
        client.sends(peer.send())
        client.session.close(bench.now_ns)
    bench.clients.clear()

    assert bench.queue.waiting == 0
    assert bench.queue.next_wake_ns() is None


def test_the_queue_is_woken_every_5_ms_at_most(bench: Bench) -> None:
    """However many groups are limited."""
    for number in range(50):
        bench.limit(f"g{number}", 100 + number)
    bench.groups.attachments = Attachments({f"t{number}": f"g{number}" for number in range(50)})
    clients = [bench.producing(f"persistent://t{number}/n/x") for number in range(50)]
    saturate(clients)
    wakes: Counter[int] = Counter()
    while bench.now_ns < START_NS + 100_000_000 and (due := bench.queue.next_wake_ns()):
        bench.now_ns = due
        wakes[due] += 1
        bench.queue.serve(due)

    assert all(due % 5_000_000 == 0 for due in wakes)
    assert set(wakes.values()) == {1}


def test_a_saturated_limit_is_served_every_10_ms(bench: Bench) -> None:
    """All that came since then in one go, whether from one producer or from several."""
    bench.limited(1000)
    clients = [bench.producing() for _ in range(3)]
    saturate(clients)
    passed = []
    while (due := bench.queue.next_wake_ns()) and due <= START_NS + NANOS_PER_SECOND:
        bench.wait((due - bench.now_ns) // MILLISECOND_NS)
        passed.append(sum(map(delivered, clients)))
        saturate(clients)

    assert passed == [5] + [10] * 99


def test_few_publishes_under_way_are_enough_for_a_part(bench: Bench) -> None:
    """A producer that waits for receipts gets as much as one that sends as fast as it can."""
    bench.limited(1000)
    waiting, sending = bench.producing(), bench.producing()
    passed = [0, 0]
    for _ in range(2 * SECOND):
        for number, (client, under_way) in enumerate(((waiting, 5), (sending, 100))):
            for _ in range(under_way - client.session.held_frames):
                client.sends_on(peer.send())
            passed[number] += delivered(client)
        bench.wait(1)

    assert sum(passed) == pytest.approx(2000, abs=20)
    assert passed[0] == pytest.approx(passed[1], abs=20)


def test_waiting_is_measured_by_what_is_lacking(bench: Bench) -> None:
    """Messages and bytes count the time that producers wait for them, and no time when none waits."""
    bench.limited(10, 10**9)
    client = bench.producing()
    client.sends(peer.send())
    bench.wait(100)
    (first,) = bench.groups.collect(bench.now_ns)
    bench.wait(100)
    (second,) = bench.groups.collect(bench.now_ns)

    assert (first.messages, first.messages_held_ns, first.bytes_held_ns) == (1, 100_000_000, 0)
    assert (second.messages, second.messages_held_ns, second.bytes_held_ns) == (0, 0, 0)
    assert delivered(client) == 1

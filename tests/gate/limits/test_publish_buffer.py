"""The memory for held frames: however many connections wait for one limit, another's have room, too."""

from __future__ import annotations

import random
from itertools import count

import pytest

from coordinator.core.model import Attachments, Rates
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.limits.publish_buffer import PublishBuffer
from coordinator.gate.limits.throttle import ThrottleReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client

OTHER = "persistent://tenant/other/topic"
FRAME = peer.send()
SIZE = len(FRAME) + HELD_FRAME_OVERHEAD
NEVER = Rates(publish_messages=0)


class Line:
    """Connections that would hold frames: who was told of room, in order."""

    def __init__(self, buffer: PublishBuffer) -> None:
        self._buffer = buffer
        self.told: list[str] = []

    def waits(self, name: str, share: str, size: int) -> Waiting:
        """A connection that is not read, as its share has no room for its frame."""
        assert not self._buffer.has_room(share, size)
        waiting = Waiting(self, name)
        self._buffer.when_relieved(waiting, share, size)
        return waiting


class Waiting:
    """A connection that notes when it is told of room."""

    def __init__(self, line: Line, name: str) -> None:
        self._line, self._name = line, name

    def __call__(self) -> None:
        self._line.told.append(self._name)


def fill(buffer: PublishBuffer, *shares: str, size: int = 1) -> dict[str, int]:
    """Let these shares hold, in turns, as many frames of a size as they may; return the bytes of each."""
    held = dict.fromkeys(shares, 0)
    growing = list(shares)
    while growing:
        for share in tuple(growing):
            if buffer.has_room(share, size):
                buffer.count(share, size)
                held[share] += size
            else:
                growing.remove(share)
    return held


@pytest.mark.parametrize("shares", [1, 2, 3, 4, 5, 9])
def test_shares_that_grow_together_leave_as_much_as_each_has(shares: int) -> None:
    """The equilibrium of dynamic thresholds: one takes a half, two a third each, n of them n/(n + 1)."""
    buffer = PublishBuffer(1_200 * (shares + 1))

    held = fill(buffer, *map(str, range(shares)))

    assert set(held.values()) == {1_200}
    assert buffer.held_bytes == 1_200 * shares


def test_shares_that_grow_one_after_another_halve_what_is_left() -> None:
    """While nothing passes, each keeps what it took."""
    buffer = PublishBuffer(1_024)

    held = [fill(buffer, str(share))[str(share)] for share in range(6)]

    assert held == [512, 256, 128, 64, 32, 16]


def test_shares_that_let_frames_pass_come_to_equal_parts() -> None:
    """To a frame: the older one may take nothing while it holds more than what is free."""
    buffer = PublishBuffer(1_200)
    held = fill(buffer, "old") | fill(buffer, "young")
    assert held == {"old": 600, "young": 300}

    for _ in range(400):
        for share in held:
            buffer.count(share, -1)
        more = fill(buffer, "old", "young")
        held = {share: held[share] - 1 + more[share] for share in held}

    assert held == {"old": 401, "young": 399}


def test_any_frame_that_fits_is_held_in_a_share_that_holds_nothing() -> None:
    """The rule of halves would leave no room for a frame that is larger than half of what is free."""
    buffer = PublishBuffer(1_000)
    assert buffer.has_room("first", 5_000), "any frame fits when nothing is held"
    fill(buffer, "first", size=100)

    assert buffer.has_room("second", 500)
    assert not buffer.has_room("second", 501)
    buffer.count("second", 400)
    assert not buffer.has_room("second", 1)
    assert buffer.has_room("third", 100)


def test_bytes_move_to_a_share_that_may_hold_them() -> None:
    """Else a client whose frames wait now for one limit, now for another, could fill both again."""
    buffer = PublishBuffer(1_200)
    fill(buffer, "first")
    fill(buffer, "second", size=30)

    assert not buffer.move("first", "second", 301)
    assert buffer.move("first", "third", 300)
    assert fill(buffer, "first", "second", "third") == {"first": 0, "second": 0, "third": 0}
    assert buffer.move("first", "fourth", 0)
    assert (buffer.held_bytes, buffer.shares) == (900, 3)


@pytest.mark.parametrize("seed", range(10))
def test_shares_leave_an_equal_number_of_halves(seed: int) -> None:
    """Three leave an eighth, in any order of what comes, moves and passes."""
    dice, buffer, least = random.Random(seed), PublishBuffer(1_024), 1_024
    held = dict.fromkeys("abc", 0)
    for _ in range(20_000):
        share, other = dice.sample("abc", 2)
        if dice.random() < 0.8 and buffer.has_room(share, 1):
            buffer.count(share, 1)
            held[share] += 1
        elif held[share]:
            size = dice.randint(1, held[share])
            is_moved = dice.random() < 0.5
            if is_moved and buffer.move(share, other, size):
                held[other] += size
                held[share] -= size
            elif not is_moved:
                buffer.count(share, -1)
                held[share] -= 1
        least = min(least, 1_024 - buffer.held_bytes)

    assert 128 <= least < 300, f"seed {seed}"


def test_what_has_arrived_of_unfinished_frames_is_not_free() -> None:
    """Half of the buffer at most, however much it is: the other half is for whole frames."""
    buffer, line = PublishBuffer(1_000), Line(PublishBuffer())
    buffer.count_unfinished(Waiting(line, "first"), 400)
    buffer.count_unfinished(Waiting(line, "second"), 400)

    assert fill(buffer, "share", size=10) == {"share": 250}


def test_a_share_has_room_again_when_half_of_its_part_is_free() -> None:
    """Alone it may hold 600 of 1,200; so at 300 the connection that has waited longest is told."""
    buffer = PublishBuffer(1_200)
    fill(buffer, "share")
    line = Line(buffer)
    first, second = line.waits("first", "share", 1), line.waits("second", "share", 1)

    buffer.count("share", -299)
    assert (line.told, buffer.lets_go_on(first)) == ([], False)
    buffer.count("share", -1)
    assert line.told == ["first"]
    assert buffer.lets_go_on(first)
    assert line.told == ["first", "second"]
    assert buffer.lets_go_on(second)
    assert buffer.waiting == 0


def test_room_for_one_wakes_one() -> None:
    """However many wait; one that finds its room taken is still the first."""
    buffer = PublishBuffer(1_200)
    fill(buffer, "share", size=300)
    line = Line(buffer)
    waiting = [line.waits(str(number), "share", 300) for number in range(1_000)]

    buffer.count("share", -300)
    assert line.told == ["0"]
    buffer.count("share", 300)  # another connection, which did not wait
    assert not buffer.lets_go_on(waiting[0])
    buffer.count("share", -300)
    assert line.told == ["0", "0"]
    buffer.count("share", -300)

    assert line.told == ["0", "0"]


def test_a_connection_that_ends_hands_on_what_it_was_told() -> None:
    """Else those behind it would wait for what nothing brings."""
    buffer = PublishBuffer(1_200)
    fill(buffer, "share")
    line = Line(buffer)
    first, second = line.waits("first", "share", 1), line.waits("second", "share", 1)
    line.waits("third", "share", 1)
    buffer.count("share", -600)

    buffer.forget(second)
    buffer.forget(first)

    assert line.told == ["first", "third"]


def test_what_others_release_makes_room_for_a_share() -> None:
    """Nothing of its own has to pass for that: its limit may be 0."""
    buffer = PublishBuffer(1_200)
    fill(buffer, "old")
    fill(buffer, "young")
    line = Line(buffer)
    line.waits("first", "young", 1)

    buffer.count("old", -599)
    assert line.told == []
    buffer.count("old", -1)

    assert line.told == ["first"]


def test_a_frame_that_ends_makes_room_for_whole_ones() -> None:
    """Its bytes are free."""
    buffer = PublishBuffer(1_000)
    line = Line(buffer)
    begun = Waiting(line, "begun")
    buffer.count_unfinished(begun, 500)
    fill(buffer, "old")
    line.waits("first", "young", 300)

    buffer.count_unfinished(begun, 0)

    assert line.told == ["first"]


class Traffic:
    """Frames of five shares that come and pass at random, and connections that wait and end."""

    SHARES = "abcde"

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.buffer = PublishBuffer(1_000)
        self._line = Line(self.buffer)
        self._numbers = count()
        self._held: list[tuple[str, int]] = []
        #: By name, in the order in which they came.
        self._waiting: dict[str, tuple[Waiting, str, int]] = {}

    def step(self) -> None:
        """Let a frame come or pass, or a connection end; all that are told go on."""
        if self._dice.random() < 0.5:
            self._comes(self._dice.choice(self.SHARES), self._dice.choice((1, 7, 60, 300)))
        elif self._held and self._dice.random() < 0.9:
            share, size = self._held.pop(self._dice.randrange(len(self._held)))
            self.buffer.count(share, -size)
        elif self._waiting:
            self._ends(self._dice.choice(list(self._waiting)))
        while self._line.told:
            self._goes_on(self._line.told.pop(0))

    def _comes(self, share: str, size: int) -> None:
        if self.buffer.has_room(share, size):
            self._hold(share, size)
        elif len(self._waiting) < 50:
            name = str(next(self._numbers))
            self._waiting[name] = self._line.waits(name, share, size), share, size

    def _ends(self, name: str) -> None:
        owner, _, _ = self._waiting.pop(name)
        self.buffer.forget(owner)

    def _goes_on(self, name: str) -> None:
        if name in self._waiting and self.buffer.lets_go_on(self._waiting[name][0]):
            _, share, size = self._waiting.pop(name)
            assert self.buffer.has_room(share, size)
            self._hold(share, size)

    def _hold(self, share: str, size: int) -> None:
        self.buffer.count(share, size)
        self._held.append((share, size))

    @property
    def free(self) -> int:
        """The bytes in which nothing is held."""
        return 1_000 - sum(size for _, size in self._held)

    def needed(self, share: str) -> int:
        """The bytes that must be free for a share's oldest connection; 0 if none waits."""
        size = next((size for _, each, size in self._waiting.values() if each == share), 0)
        held = sum(size for each, size in self._held if each == share)
        return max(3 * held, held + 2 * size) if held and size else size

    def end(self) -> None:
        """Let everything pass and end."""
        while self._held:
            share, size = self._held.pop()
            self.buffer.count(share, -size)
        while self._waiting:
            self._ends(next(iter(self._waiting)))


@pytest.mark.parametrize("seed", range(20))
def test_no_connection_waits_for_room_that_there_is(seed: int) -> None:
    """In any order of what comes, passes and ends: the oldest of a share with relief goes on."""
    traffic, waits = Traffic(seed), 0

    for _ in range(3_000):
        traffic.step()
        for share in traffic.SHARES:
            needed = traffic.needed(share)
            assert not needed or traffic.free < needed, f"seed {seed}"
            waits += needed > 0

    traffic.end()
    buffer = traffic.buffer
    assert (buffer.held_bytes, buffer.waiting, buffer.shares) == (0, 0, 0)
    assert waits > 1_000


# At gates


def sends(number: int) -> list[bytes]:
    """This many SENDs of producer 1."""
    return [peer.send(1, each) for each in range(number)]


def greedy(bench: Bench, connections: int, topic: str = TOPIC) -> list[Client]:
    """Connections of one limit, each of which would have ten frames held."""
    clients = [bench.producing(topic) for _ in range(connections)]
    for client in clients:
        assert client.sends(*sends(10)) == []
    return clients


def held_frames(*clients: Client) -> int:
    """Frames that these hold together."""
    return sum(client.session.held_frames for client in clients)


def test_a_group_with_any_number_of_connections_leaves_room_to_another(bench: Bench) -> None:
    """A hundred connections of a slow group hold half; one of another group holds all that it needs."""
    bench.buffer = PublishBuffer(128 * SIZE)
    bench.attach(ns="slow", other="another")
    for group in ("slow", "another"):
        bench.limit(group, 0)

    many = greedy(bench, 100)
    (other,) = greedy(bench, 1, OTHER)

    assert held_frames(*many) == 64
    assert sum(client.session.paused for client in many) == 94
    assert (other.session.held_frames, other.session.paused) == (10, False)
    assert greedy(bench, 20, OTHER)
    assert bench.buffer.held_bytes == (64 + 32) * SIZE


def test_room_that_comes_back_goes_round(bench: Bench) -> None:
    """Every frame of every connection passes in the end, and a connection's in order."""
    bench.buffer = PublishBuffer(16 * SIZE)
    bench.limited(1000)
    bench.wait(1000)
    clients = [bench.producing() for _ in range(30)]
    for client in clients:
        client.sends_on(*sends(10))
    assert 0 < sum(client.session.paused for client in clients) < 30

    bench.wait(1_000)

    assert [client.broker_got() for client in clients] == 30 * [sends(10)]


def test_the_share_is_that_of_the_limit_that_is_waited_for(bench: Bench) -> None:
    """Frames of two groups that wait for the broker's limit are one; their groups let them pass."""
    bench.buffer = PublishBuffer(128 * SIZE)
    bench.attach(ns="slow", other="another")
    bench.limit_broker(NEVER)

    many = greedy(bench, 10) + greedy(bench, 10, OTHER)

    assert held_frames(*many) == 64


@pytest.mark.parametrize("topic", [f"{TOPIC}-2", "persistent://tenant/else/topic"])
def test_all_topics_of_a_tenant_with_limits_of_their_own_are_one_share(
    bench: Bench, topic: str
) -> None:
    """Clients make topics, and partitions have a limit by default; another tenant has its own part."""
    bench.buffer = PublishBuffer(128 * SIZE)
    foreign = "persistent://foreign/ns/topic"
    for limited in (TOPIC, topic, foreign):
        bench.limit_topic(limited, NEVER)

    many = greedy(bench, 10) + greedy(bench, 10, topic)

    assert held_frames(*many) == 64
    assert held_frames(*greedy(bench, 2, foreign)) == 20


def test_commands_take_no_room_of_publishes(bench: Bench) -> None:
    """A client that names a topic in a command need not be allowed to publish to it."""
    request = peer.command(
        5, (1, TOPIC), (2, 1), (3, 1), (7, peer.message((1, "s"), (3, b"x" * 900), (4, 2)))
    )
    size = len(request) + HELD_FRAME_OVERHEAD
    bench.buffer = PublishBuffer(8 * size)
    bench.limited(0)
    publisher = bench.producing()

    clients = [bench.client() for _ in range(10)]
    for client in clients:
        assert client.sends(request) == []
    assert [client.session.paused for client in clients] == 4 * [False] + 6 * [True]

    assert publisher.sends(*sends(3)) == []
    assert publisher.session.held_frames == 3


def test_a_connection_that_comes_to_another_group_waits_for_room_there(bench: Bench) -> None:
    """Its held frames count there, too; the group that it leaves may be full for hours."""
    bench.buffer = PublishBuffer(128 * SIZE)
    bench.attach(ns="slow", other="slow")
    for group in ("slow", "another"):
        bench.limit(group, 0)
    moved = greedy(bench, 2, OTHER)
    rest = greedy(bench, 10)
    (late,) = greedy(bench, 1, OTHER)
    assert (held_frames(*moved), held_frames(*rest), late.session.held_frames) == (20, 44, 0)

    bench.attach(ns="slow", other="another")

    assert (late.session.held_frames, late.session.paused) == (10, False)
    assert held_frames(*rest) == 54, "the slow group alone beside 20 frames of another"
    assert held_frames(*moved, *greedy(bench, 10, OTHER), late) == 37


def test_a_connection_whose_role_changes_waits_for_room_of_its_group(bench: Bench) -> None:
    """It is looked at anew at once, though it is not read."""
    bench.buffer = PublishBuffer(4 * SIZE)
    bench.groups.attachments = Attachments({}, {"tenant/ns": "slow"})
    bench.limit("slow", 0)
    greedy(bench, 1)
    client = bench.producing()
    client.sends(*sends(1))
    assert client.session.throttle.pausing == {ThrottleReason.PUBLISH_BUFFER}

    bench.groups.attachments = Attachments({}, {"tenant/ns": "another"})
    client.session._identity.role = "app"
    client.session.receive_from_client(b"", bench.now_ns)

    assert client.session.throttle.pausing == set()
    assert client.broker_got() == sends(1)

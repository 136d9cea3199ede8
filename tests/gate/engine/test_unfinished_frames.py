"""Large frames that must arrive in full before they can be decided: what they count, and for how long."""

from __future__ import annotations

import random
import struct
from itertools import count

import pytest

from coordinator.core.model import Attachments, Rates
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.limits.publish_buffer import PublishBuffer
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.gate.protocol.stream import HEAD_FREE
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client
from tests.gate.server.hostile_site import Site, Visit, site
from tests.gate.server.test_proxy import until

LARGE = peer.send(1, 1, content=b"z" * 1_000_000)
SIZE = len(LARGE) + HELD_FRAME_OVERHEAD
COMMAND = peer.producer(TOPIC, 9, 9, name="x" * 100_000)
COMMAND_SIZE = len(COMMAND) + HELD_FRAME_OVERHEAD
BEGUN = 20_000
"""Bytes of a command that has begun: more than are kept without asking."""


def held_back(bench: Bench) -> Client:
    """A client with one producer, which may not publish."""
    bench.limited(0)
    return bench.producing()


def test_a_send_that_must_wait_has_its_room_from_its_head_on(bench: Bench) -> None:
    """Else it would arrive and find none, and keep what it took from others while it waits."""
    client = held_back(bench)

    before = 0
    for arrived in (500, 100_000, 900_000):
        client.sends_on(LARGE[before:arrived])
        before = arrived
        assert (client.session.held_bytes, bench.buffer.held_bytes) == (SIZE, SIZE)
    assert client.session.held_frames == 0
    client.sends_on(LARGE[before:])
    assert (client.session.held_bytes, bench.buffer.held_bytes) == (SIZE, SIZE)
    assert client.session.held_frames == 1


def with_metadata(size: int) -> bytes:
    """A SEND with a property of this size."""
    metadata = peer.message(
        (1, "standalone-0-1"),
        (2, 17),
        (3, peer.PUBLISHED_MS),
        (4, peer.message((1, "key"), (2, "v" * size))),
    )
    command = peer.message((1, 6), (6, peer.message((1, 1), (2, 1))))
    return peer.frame(command, struct.pack(">I", len(metadata)) + metadata + b"x" * 100)


@pytest.mark.parametrize("large", [LARGE, with_metadata(1_000_000)], ids=["content", "metadata"])
def test_large_sends_of_a_slow_group_stop_none_of_another(bench: Bench, large: bytes) -> None:
    """However many connections have one: those without room in their share keep nothing."""
    size = len(large) + HELD_FRAME_OVERHEAD
    bench.buffer = PublishBuffer(8 * size)
    bench.attach(ns="slow", other="another")
    for group in ("slow", "another"):
        bench.limit(group, 0)
    many = [bench.producing() for _ in range(20)]
    other = bench.producing("persistent://tenant/other/topic")

    for client in (*many, other):
        for part in (large[:100_000], large[100_000:-1], large[-1:]):
            client.sends_on(part)

    assert sum(client.session.held_frames for client in many) == 4
    assert (other.session.held_frames, other.session.paused) == (1, False)
    assert bench.buffer.held_bytes == 5 * size


def test_a_send_keeps_its_room_while_others_take_theirs(bench: Bench) -> None:
    """Its share might not hold it any more when the rest of it comes."""
    bench.buffer = PublishBuffer(5 * SIZE)
    bench.attach(ns="slow", other="another")
    for group in ("slow", "another"):
        bench.limit(group, 0)
    first, second = bench.producing(), bench.producing()
    other = bench.producing("persistent://tenant/other/topic")
    first.sends(LARGE)

    second.sends_on(LARGE[:100_000])
    other.sends(peer.send(1, 1, content=b"z" * 2_000_000))
    second.sends_on(LARGE[100_000:])

    assert [each.session.held_frames for each in (first, second, other)] == [1, 1, 1]


def test_the_beginning_of_a_small_frame_counts_nothing(bench: Bench) -> None:
    """Every read ends inside a frame, whether anything is held or not."""
    client = held_back(bench)

    client.sends_on(peer.send(content=b"z" * (HEAD_FREE // 2))[:-1])

    assert client.session.held_bytes == 0


@pytest.mark.parametrize("begun", [0, 500])
def test_a_frame_without_room_in_its_connection_is_read_when_others_have_gone(
    bench: Bench, begun: int
) -> None:
    """Decoding stops in front of it; what comes behind it waits, too."""
    bench.limited(1)
    client = bench.producing(held_bytes_max=SIZE)
    client.sends(peer.send(1, 0))
    client.sends_on(LARGE[:begun])

    client.sends_on(LARGE[begun:-1])

    assert client.session.paused
    bench.wait(1000)
    assert client.broker_got() == [peer.send(1, 0)]
    client.sends_on(LARGE[-1:])
    bench.wait(1000)
    assert client.broker_got() == [LARGE]


def test_unfinished_frames_leave_half_of_the_gates_room_to_others(bench: Bench) -> None:
    """Of those that do not fit into their half the oldest goes on, and the next one after it."""
    bench.buffer = PublishBuffer(2 * COMMAND_SIZE)
    first, second, third = held_back(bench), bench.producing(), bench.producing()
    for client in (first, second, third):
        client.sends_on(COMMAND[:BEGUN])
    for client in (first, second, third):
        client.sends_on(COMMAND[BEGUN:-1])

    assert [each.session.paused for each in (first, second, third)] == [False, True, True]
    small = bench.producing()
    small.sends(peer.send(1, 0))
    assert small.session.held_frames == 1
    first.session.close(bench.now_ns)
    second.session.advance(bench.now_ns)
    third.session.advance(bench.now_ns)
    assert [each.session.paused for each in (second, third)] == [False, True]


def test_a_connection_that_waits_is_told_when_it_is_the_oldest(bench: Bench) -> None:
    """Else it would stand still until it sends, and it is not read."""
    bench.buffer = PublishBuffer(COMMAND_SIZE)
    first, second = held_back(bench), bench.producing()
    for client in (first, second):
        client.sends_on(COMMAND[:BEGUN])
        client.sends_on(COMMAND[BEGUN:-1])
    bench.released.clear()

    first.session.close(bench.now_ns)

    assert bench.released == [second]


def test_a_connection_is_no_older_than_the_frame_that_it_sends(bench: Bench) -> None:
    """One that sends large frames one behind the other would go on for ever, and nothing else."""
    bench.buffer = PublishBuffer(COMMAND_SIZE)
    busy, other = bench.client(), bench.client()
    for client in (busy, other):
        client.sends_on(COMMAND[:BEGUN])

    busy.sends_on(COMMAND[BEGUN:] + COMMAND[:BEGUN])
    other.sends_on(COMMAND[BEGUN:-1])
    busy.sends_on(COMMAND[BEGUN:-1])

    assert [each.session.paused for each in (busy, other)] == [True, False]


def test_a_send_waits_in_front_of_what_whole_frames_take(bench: Bench) -> None:
    """A further turn of its connection counts no second pause, for nothing has become free."""
    bench.buffer = PublishBuffer(2 * SIZE - 1)
    holder, client = held_back(bench), bench.producing()
    holder.sends(LARGE)
    client.sends_on(LARGE[:100_000])
    client.sends_on(LARGE[100_000:])
    bench.released.clear()

    client.session.advance(bench.now_ns)

    assert client.session.paused
    assert client.session.throttle.counts[ThrottleReason.PUBLISH_BUFFER] == 1
    holder.session.close(bench.now_ns)
    assert bench.released == [client]


def test_a_connection_that_is_told_of_room_goes_on(bench: Bench) -> None:
    """An older frame that is unfinished, however large, is no reason to leave it: it is told once."""
    bench.buffer = PublishBuffer(2 * SIZE)
    older, client, holder = held_back(bench), bench.producing(), bench.producing()
    older.sends_on(COMMAND[:-1])
    holder.sends(LARGE)
    client.sends_on(LARGE)
    bench.released.clear()

    holder.session.close(bench.now_ns)

    assert bench.released == [client]
    client.session.advance(bench.now_ns)
    assert client.session.held_frames == 1


def test_a_frame_that_passes_in_the_end_counts_no_longer(bench: Bench) -> None:
    """Its limit may be gone when the rest of it comes."""
    client = held_back(bench)
    client.sends_on(LARGE[:500])
    bench.limit("limited", None)

    assert client.sends(LARGE[500:]) == [LARGE]
    assert (client.session.held_bytes, bench.buffer.held_bytes) == (0, 0)


def test_a_large_command_counts_until_it_is_read(bench: Bench) -> None:
    """It is kept whatever it is about."""
    client = bench.client()

    client.sends_on(COMMAND[:500])
    assert client.session.held_bytes == 500 + HELD_FRAME_OVERHEAD

    client.sends_on(COMMAND[500:])
    assert client.session.held_bytes == 0


class Publishers:
    """Clients of two groups whose frames come in parts, while limits change and connections end."""

    SPACES = ("ns", "other")

    def __init__(self, bench: Bench, seed: int) -> None:
        self._bench, self._dice = bench, random.Random(seed)
        bench.buffer = PublishBuffer(400_000)
        self._numbers = count()
        #: By connection, the frames that it has begun, and what is left of the last one.
        self.sent: dict[Client, list[bytes]] = {}
        self._rest: dict[Client, bytes] = {}
        self._change()

    def step(self) -> None:
        """Do one of these things."""
        dice = self._dice.random()
        if len(self.sent) < 12 or dice < 0.03:
            topic = f"persistent://tenant/{self._dice.choice(self.SPACES)}/topic"
            client = self._bench.producing(topic, held_bytes_max=100_000)
            self.sent[client], self._rest[client] = [], b""
        elif dice < 0.9:
            self._sends(self._dice.choice(list(self.sent)))
        elif dice < 0.93:
            client = self._dice.choice(list(self.sent))
            del self.sent[client], self._rest[client]
            client.session.close(self._bench.now_ns)
        elif dice < 0.96:
            self._change()
        else:
            self._bench.wait(100)

    def _sends(self, client: Client) -> None:
        if client.session.paused:
            return
        rest = self._rest[client]
        if not rest:
            size = self._dice.choice((100, 20_000, 60_000))
            rest = peer.send(1, next(self._numbers), content=b"z" * size)
            self.sent[client].append(rest)
        part = self._dice.choice((50, len(rest) // 2, len(rest)))
        self._rest[client] = rest[part:]
        client.sends_on(rest[:part])

    def _change(self) -> None:
        groups = {space: self._dice.choice(("fast", "shut")) for space in self.SPACES}
        self._bench.attach(None, **groups)
        self._bench.limit("fast", self._dice.choice((None, 100)))
        self._bench.limit("shut", 0)

    @property
    def counted(self) -> int:
        """The bytes that the connections count."""
        return sum(client.session.held_bytes for client in self.sent)

    def end(self) -> None:
        """Let everything pass, and have the rest of each frame sent."""
        for group in ("fast", "shut"):
            self._bench.limit(group, None)
        self._bench.wait(10)
        for client, rest in self._rest.items():
            client.sends_on(rest)


@pytest.mark.parametrize("seed", range(8))
def test_every_frame_passes_in_the_end_and_the_books_agree(bench: Bench, seed: int) -> None:
    """In whatever parts it comes, and whatever its connection waited for."""
    publishers = Publishers(bench, seed)

    for _ in range(1_500):
        publishers.step()
        assert bench.buffer.held_bytes == publishers.counted, f"seed {seed}"
    publishers.end()

    for client, frames in publishers.sent.items():
        got = [frame for frame in client.broker_got() if peer.kind_of(frame) == 6]
        assert (got, client.session.paused) == (frames, False), f"seed {seed}"
    assert bench.counters.throttles[ThrottleReason.PUBLISH_BUFFER], f"seed {seed}"
    assert bench.counters.throttles[ThrottleReason.HELD_BYTES], f"seed {seed}"


async def limited(here: Site) -> Visit:
    """A client whose publishes are held."""
    here.gate.set_attachments(Attachments({}, {"tenant/ns": "limited"}))
    here.gate.set_limits("limited", Rates(publish_messages=0))
    return await here.client()


async def test_a_client_that_leaves_a_large_frame_unfinished_is_closed() -> None:
    """After the time that a peer may stand still, and its memory is free."""
    async with site() as here:
        client = await limited(here)
        client.writer.write(LARGE[:100_000])
        await until(lambda: here.gate.figures().held_bytes == SIZE)

        here.pass_time(60)
        assert here.closes == {}
        here.pass_time(2)

        assert await client.is_closed()
        assert here.closes == {"client did not complete a held frame in time": 1}
        assert here.gate.figures().held_bytes == 0


async def test_a_client_that_completes_its_frames_has_the_time_for_each() -> None:
    """However many there are, and although each read ends inside one."""
    async with site() as here:
        client = await limited(here)
        client.writer.write(LARGE[:100_000])
        await until(lambda: here.gate.figures().held_bytes == SIZE)
        for frames in range(1, 4):
            here.pass_time(50)
            client.writer.write(LARGE[100_000:] + LARGE[:100_000])
            await until(lambda: here.gate.figures().held_bytes == (frames + 1) * SIZE)  # noqa: B023

        assert here.closes == {}

"""Large frames that must arrive in full before they can be held: what they count, and for how long."""

from __future__ import annotations

from coordinator.core.model import Attachments, Rates
from coordinator.gate.engine.producer import HELD_FRAME_OVERHEAD
from coordinator.gate.limits.throttle import PublishBuffer
from coordinator.gate.protocol.stream import HEAD_FREE
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client
from tests.gate.server.hostile_site import Site, Visit, site
from tests.gate.server.test_proxy import until

LARGE = peer.send(1, 1, content=b"z" * 1_000_000)
SIZE = len(LARGE) + HELD_FRAME_OVERHEAD


def held_back(bench: Bench) -> Client:
    """A client with one producer, which may not publish."""
    bench.attach(ns="limited")
    bench.limit("limited", 0)
    return bench.producing()


def test_a_frame_counts_with_all_of_its_size_from_its_first_bytes_on(bench: Bench) -> None:
    """Frames that many connections begin and leave are within the bound of held memory together."""
    client = held_back(bench)

    client.sends_on(LARGE[:500])

    assert (client.session.held_bytes, bench.buffer.held_bytes) == (SIZE, SIZE)
    assert client.session.held_frames == 0
    client.sends_on(LARGE[500:])
    assert (client.session.held_bytes, bench.buffer.held_bytes) == (SIZE, SIZE)
    assert client.session.held_frames == 1


def test_the_beginning_of_a_small_frame_counts_nothing(bench: Bench) -> None:
    """Every read ends inside a frame, whether anything is held or not."""
    client = held_back(bench)

    client.sends_on(peer.send(content=b"z" * (HEAD_FREE // 2))[:-1])

    assert client.session.held_bytes == 0


def test_a_frame_without_room_in_its_connection_is_read_when_others_have_gone(
    bench: Bench,
) -> None:
    """Decoding stops in front of it, and what comes behind it waits, too."""
    bench.attach(ns="limited")
    bench.limit("limited", 1)
    client = bench.producing(held_bytes_max=SIZE)
    client.sends(peer.send(1, 0))

    client.sends_on(LARGE[:500])

    assert client.session.paused
    bench.wait(1000)
    assert client.broker_got() == [peer.send(1, 0)]
    client.sends_on(LARGE[500:])
    bench.wait(1000)
    assert client.broker_got() == [LARGE]


def test_a_frame_without_room_in_the_gate_is_read_when_half_is_free(bench: Bench) -> None:
    """The buffer of all connections counts what another one has begun."""
    bench.buffer = PublishBuffer(SIZE + 1000)
    first = held_back(bench)
    second = bench.producing()
    first.sends_on(LARGE[:500])

    second.sends_on(LARGE[:500])

    assert (first.session.paused, second.session.paused) == (False, True)
    first.session.close(bench.now_ns)
    second.session.advance(bench.now_ns)
    assert not second.session.paused
    assert bench.buffer.held_bytes == SIZE


def test_a_frame_that_passes_in_the_end_counts_no_longer(bench: Bench) -> None:
    """Its limit may be gone when the rest of it comes."""
    client = held_back(bench)
    client.sends_on(LARGE[:500])
    bench.limit("limited", None)

    assert client.sends(LARGE[500:]) == [LARGE]
    assert (client.session.held_bytes, bench.buffer.held_bytes) == (0, 0)


def test_a_large_command_counts_until_it_is_read(bench: Bench) -> None:
    """It is kept whatever it is about."""
    request = peer.producer(TOPIC, 9, 9, name="x" * 100_000)
    client = bench.client()

    client.sends_on(request[:500])
    assert client.session.held_bytes == len(request) + HELD_FRAME_OVERHEAD

    client.sends_on(request[500:])
    assert client.session.held_bytes == 0


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

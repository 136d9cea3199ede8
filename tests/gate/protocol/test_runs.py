"""Runs of frames: what the compiled helper finds, and that it looks at nothing else."""

from __future__ import annotations

import random

import pytest

from coordinator.gate.protocol.frames import FRAME_PADDING, MAX_MESSAGE_SIZE
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.helper import built

FRAME_MAX = MAX_MESSAGE_SIZE + FRAME_PADDING
SENDS = [peer.send(1, 0), peer.send(1, 300, 7, b"z" * 40), peer.send(1, 2**40)]


def payload(frame: bytes) -> int:
    """Bytes behind the command."""
    return len(frame) - 8 - int.from_bytes(frame[4:8], "big")


def found(data: bytes, pos: int = 0, frame_max: int = FRAME_MAX) -> tuple[int, ...] | None:
    """The run at a position, as plain numbers."""
    run = built()(data, pos, frame_max)
    return None if run is None else tuple(run)


def test_sends_of_one_producer_are_added_up() -> None:
    """Batches by their real number, from any position on."""
    sizes = [payload(frame) for frame in SENDS]
    data = b"".join(SENDS)

    fields = [fields_of(frame) for frame in SENDS]
    assert found(data) == (6, 1, 3, 9, sum(sizes), 7, max(sizes), sum(fields), len(data))
    start = len(SENDS[0])
    sizes, fields = sizes[1:], fields[1:]
    assert found(data, start) == (6, 1, 2, 8, sum(sizes), 7, max(sizes), sum(fields), len(data))


def fields_of(frame: bytes) -> int:
    """The fields that the helper reads of a frame."""
    run = found(frame)
    assert run is not None
    return run[7]


def test_the_fields_of_a_run_are_those_of_all_levels() -> None:
    """They are what it costs to read it."""
    properties = [(4, peer.message((1, "k"), (2, "v")))] * 100
    metadata = peer.message((1, "p"), (2, 1), (3, 1), *properties)
    head = peer.message((1, 6), (6, peer.message((1, 1), (2, 1))))
    send = peer.frame(head, len(metadata).to_bytes(4, "big") + metadata)
    assert fields_of(send) == 2 + 3 + 3 * 100
    assert fields_of(peer.receipt(1, 7)) == 1


@pytest.mark.parametrize(
    "other",
    [peer.send(2), peer.receipt(1), peer.PING, peer.producer(TOPIC), b"\0\0\0\5", b"junk" * 30],
    ids=["another producer", "another kind", "ping", "producer", "incomplete", "junk"],
)
def test_a_run_ends_in_front_of_what_is_otherwise(other: bytes) -> None:
    """Other frames do not concern the run."""
    run = found(peer.send(1) + other)
    assert run is not None
    assert (run[2], run[-1]) == (1, len(peer.send(1)))


def test_the_last_frame_need_not_have_arrived_in_full() -> None:
    """Its command must have, and of a message its metadata, too."""
    send, delivery = peer.send(1, 0, 1, b"z" * 500), peer.delivery(1, 9, b"y" * 500)
    for frame in (send, delivery):
        run = found(frame[:-400])
        assert run is not None
        assert run[-1] == len(frame)
    assert found(send[:12]) is None
    assert found(delivery[:40]) is None


@pytest.mark.parametrize(
    "delivery",
    [
        peer.delivery(1, 5),
        peer.delivery(1, 5, checksum=False),
        peer.delivery(1, 5, broker_entry=b"\x08\x01"),
    ],
    ids=["checksum", "no checksum", "broker entry"],
)
def test_messages_to_one_consumer_are_added_up(delivery: bytes) -> None:
    """The number in their metadata counts, wherever it stands."""
    size = payload(delivery)
    fields = fields_of(delivery)
    expected = (9, 1, 2, 10, 2 * size, 5, size, 2 * fields, 2 * len(delivery))
    assert found(delivery * 2) == expected


def test_messages_of_which_some_are_acknowledged_are_no_run() -> None:
    """They cost fewer permits; that is decided one by one."""
    head = peer.message((1, 1), (2, peer.message((1, 5), (2, 6))), (4, 3))
    command = peer.message((1, 9), (9, head))
    assert found(peer.frame(command, peer.payload_of(b"y" * 50, 9))) is None


@pytest.mark.parametrize(
    ("data", "pos", "frame_max"),
    [(b"", 0, FRAME_MAX), (SENDS[0], -1, FRAME_MAX), (SENDS[0], 10**6, FRAME_MAX),
     (SENDS[0], 0, 50), (SENDS[0], 0, 0), (SENDS[0], 0, 2**40)],
)  # fmt: skip
def test_nothing_is_found_where_nothing_can_be(data: bytes, pos: int, frame_max: int) -> None:
    """Positions outside of the data, frames larger than allowed."""
    assert found(data, pos, frame_max) is None


def test_misuse_is_an_error() -> None:
    """The extension raises and does not crash."""
    for arguments in ((bytearray(SENDS[0]), 0, 100), (SENDS[0], "0", 100), (SENDS[0], 0)):
        with pytest.raises(TypeError):
            built()(*arguments)


def test_damaged_runs_stay_inside_their_frames() -> None:
    """After any damage a run ends at the end of a frame."""
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    frames = [*SENDS, peer.receipt(1, 7), peer.delivery(1, 3), peer.delivery(7)]
    for _ in range(20_000):
        data = bytearray(b"".join(dice.choices(frames, k=4)))
        for _ in range(dice.randrange(4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        run = found(bytes(data[: dice.randrange(len(data))]))
        if run is not None:
            position = 0
            for _ in range(run[2]):
                position += 4 + int.from_bytes(data[position : position + 4], "big")
            assert run[-1] == position, f"seed {seed}"


def test_a_run_that_does_not_fit_is_decided_frame_by_frame(bench: Bench) -> None:
    """As many pass as there are tokens for, the others are held; the same with and without runs."""
    bench.limited(100)
    client = bench.producing()
    bench.wait(1000)
    frames = [peer.send(1, number) for number in range(20)]

    assert client.sends(*frames) == frames[:5]
    assert client.session.held_frames == 15


def test_a_run_never_makes_a_debt(bench: Bench) -> None:
    """A single message larger than the bucket passes when it is full; many small ones do not."""
    bench.limited(20)
    client = bench.producing()
    bench.wait(1000)

    assert len(client.sends(*(peer.send(1, number) for number in range(50)))) == 1


def test_receipts_in_a_run_are_counted_once(bench: Bench) -> None:
    """More receipts than publishes leave the books as they are."""
    client = bench.producing()
    client.sends(*(peer.send(1, number) for number in range(3)))
    client.is_sent(peer.receipt(1, 0), peer.receipt(1, 1))
    assert client.session.unanswered == 1
    client.is_sent(*[peer.receipt(1, 2)] * 5)
    assert client.session.unanswered == 0

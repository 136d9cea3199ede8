"""One direction of a connection: cutting, passing, keeping, stopping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.gate.protocol.frames import SEND, FrameFault, MalformedFrame
from coordinator.gate.protocol.stream import ENDLESS, FrameStream, FrameVerdict
from tests.gate import peer

TAKEN, SWALLOWED, WATCHED = 101, 102, 103


def let_pass(_kind: int) -> None:
    """Object to no type."""


def feed(stream: FrameStream, data: bytes) -> None:
    """Take the bytes of a read, and decide a turn of frames."""
    stream.keep(data)
    stream.go_on()


class Decider:
    """Decides by producer id, and remembers what it took."""

    def __init__(self, turn: int = ENDLESS) -> None:
        self.taken: list[bytes] = []
        self.seen = 0
        self.stream = FrameStream({SEND: self.decide}, SEND, let_pass, turn=turn)

    def decide(
        self, data: bytes, start: int, _body: int, _command_end: int, frame_end: int
    ) -> FrameVerdict | int:
        producer_id = data[start + 13]
        if producer_id == TAKEN:
            if frame_end > len(data):
                return frame_end
            self.taken.append(data[start:frame_end])
            return FrameVerdict.TAKEN
        self.seen += 1
        return FrameVerdict.DISCARD if producer_id == SWALLOWED else FrameVerdict.PASSES

    def out(self) -> bytes:
        written = b"".join(self.stream.out)
        self.stream.out.clear()
        return written


def a_frame() -> st.SearchStrategy[bytes]:
    """Any frame a client may send, of any length."""
    content = st.binary(max_size=300)
    return st.one_of(
        st.builds(peer.send, st.sampled_from([TAKEN, SWALLOWED, WATCHED]), content=content),
        st.just(peer.PING),
        st.just(peer.flow()),
        st.builds(peer.connect),
        st.builds(lambda kind, raw: peer.command(kind, (1, raw)), st.integers(20, 120), content),
    )


@pytest.mark.slow
@given(
    frames=st.lists(a_frame(), max_size=12),
    turn=st.sampled_from([1, 2, 3, ENDLESS]),
    data=st.data(),
)
def test_every_split_of_a_stream_gives_the_same_output(
    frames: list[bytes], turn: int, data: st.DataObject
) -> None:
    """The network may cut a stream anywhere, and its frames may be decided in turns of any length."""
    stream = b"".join(frames)
    decider = Decider(turn)
    output = b""
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        feed(decider.stream, stream[:size])
        stream = stream[size:]
        while decider.stream.waits:
            decider.stream.go_on()
        output += decider.out()

    def is_send(frame: bytes, producer_id: int) -> bool:
        return frame[9] == SEND and len(frame) > 13 and frame[13] == producer_id

    left = [f for f in frames if not is_send(f, TAKEN) and not is_send(f, SWALLOWED)]
    assert peer.split(output) == left
    assert decider.taken == [frame for frame in frames if is_send(frame, TAKEN)]
    assert not decider.stream.awaits_rest


@pytest.mark.parametrize("position", range(1, 200))
def test_an_inserted_frame_never_lands_inside_another(position: int) -> None:
    """Wherever the stream stands, the insertion waits for the frame under way to end."""
    decider = Decider()
    stream = peer.send(WATCHED) + peer.PING
    position = min(position, len(stream))

    feed(decider.stream, stream[:position])
    decider.stream.insert(peer.PONG)
    feed(decider.stream, stream[position:])

    assert sorted(peer.split(decider.out())) == sorted([peer.send(WATCHED), peer.PING, peer.PONG])


def test_neighbouring_frames_leave_in_one_piece() -> None:
    """Bytes that arrive and pass whole leave as the very same object."""
    decider = Decider()
    data = peer.send(WATCHED) * 50 + peer.PING

    feed(decider.stream, data)

    assert decider.stream.out[0] is data


def test_a_turn_decides_its_number_of_frames_and_leaves_the_others() -> None:
    """They are decided when it is told to go on, and each is counted once."""
    decider = Decider(turn=3)
    feed(decider.stream, peer.send(SWALLOWED) * 7)
    assert (decider.seen, decider.stream.waits) == (3, True)
    decider.stream.go_on()
    assert (decider.seen, decider.stream.waits) == (6, True)
    decider.stream.go_on()
    assert (decider.seen, decider.stream.waits) == (7, False)
    decider.stream.go_on()
    assert decider.seen == 7


def test_nothing_behind_a_broken_frame_is_decided_in_a_later_turn() -> None:
    """The stream makes no sense from there on."""
    decider = Decider(turn=2)
    decider.stream.keep(peer.send(SWALLOWED) + b"\0" * 12)
    decider.stream.keep(peer.send(SWALLOWED))
    with pytest.raises(MalformedFrame):
        decider.stream.go_on()
    assert (decider.seen, decider.stream.waits) == (1, False)


def test_a_large_frame_streams_through() -> None:
    """A decided frame is neither gathered nor copied."""
    decider = Decider()
    frame = peer.send(WATCHED, content=b"z" * 1_000_000)

    feed(decider.stream, frame[:400])
    assert decider.out() == frame[:400]
    feed(decider.stream, frame[400:500_000])
    assert decider.out() == frame[400:500_000]
    feed(decider.stream, frame[500_000:] + peer.PING)

    assert decider.out() == frame[500_000:] + peer.PING
    assert decider.seen == 1
    assert not decider.stream.awaits_rest
    assert not decider.stream.waits


def test_a_command_that_nobody_watches_is_not_awaited() -> None:
    """The head of a command is enough to let a large answer through."""
    decider = Decider()
    frame = peer.command(33, (1, b"t" * 100_000))

    feed(decider.stream, frame[:24])

    assert decider.out() == frame[:24]


def test_nothing_behind_a_stop_is_decoded() -> None:
    """apache/pulsar#26006: pausing the socket does not pause what is already in memory."""
    passes = [FrameVerdict.PASSES, FrameVerdict.STOP]
    stream = FrameStream({SEND: lambda *_: passes.pop(0)}, SEND, let_pass)

    feed(stream, peer.send(1) + peer.send(2) + peer.send(3) + b"\xff" * 100)
    feed(stream, peer.PING)

    assert b"".join(stream.out) == peer.send(1)
    assert stream.stopped
    assert passes == []


def test_resume_begins_with_the_frame_that_stopped() -> None:
    """No frame is lost or decided twice."""
    verdicts = [
        FrameVerdict.PASSES,
        FrameVerdict.STOP,
        FrameVerdict.PASSES,
        FrameVerdict.STOP,
        FrameVerdict.PASSES,
    ]
    stream = FrameStream({SEND: lambda *_: verdicts.pop(0)}, SEND, let_pass)
    frames = [peer.send(1), peer.send(2), peer.send(3)]

    feed(stream, b"".join(frames))
    stream.resume()
    stream.resume()

    assert b"".join(stream.out) == b"".join(frames)


@pytest.mark.parametrize("more", [0, 1, 3, 4])
@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ("00000005 00000002", FrameFault.FRAME_SIZE),
        ("ffffffff 00000005", FrameFault.FRAME_SIZE),
        ("005027fd 00000005", FrameFault.FRAME_SIZE),
        ("00000009 00000006", FrameFault.COMMAND_SIZE),
        ("00000009 00000001", FrameFault.COMMAND_SIZE),
        ("00000009 ffffffff", FrameFault.COMMAND_SIZE),
        ("47455420 2f204854", FrameFault.FRAME_SIZE),
    ],
)
def test_sizes_that_cannot_be_are_malformed(head: str, fault: FrameFault, more: int) -> None:
    """The stream judges them as soon as they arrive; Netty's bound includes the size field."""
    sizes = bytes.fromhex(head)
    behind = b"\x08\x12\x92\x01"[:more]
    with pytest.raises(MalformedFrame) as together:
        feed(Decider().stream, peer.PING + sizes + behind)
    byte_by_byte = Decider().stream
    for at in range(len(sizes) - 1):
        feed(byte_by_byte, sizes[at : at + 1])
    with pytest.raises(MalformedFrame) as apart:
        feed(byte_by_byte, sizes[-1:] + behind)

    assert together.value.fault is apart.value.fault is fault


def test_the_largest_frame_is_let_through() -> None:
    """The bound itself is still a frame."""
    decider = Decider()
    head = (5_253_116).to_bytes(4, "big") + (5_253_112).to_bytes(4, "big")
    head += b"\x08\x12\x92\x01" + peer.varint(5_253_112 - 4 - 4)

    feed(decider.stream, head + bytes(12))

    assert decider.out() == head + bytes(12)

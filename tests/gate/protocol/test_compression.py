"""A compressed batch costs as many messages as its content can hold by its producer's codec."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from tests.gate import peer
from tests.gate.conftest import Bench

MESSAGE = b"\x00\x00\x00\x02\x18\x00"
"""The smallest message of a batch: the size of its metadata, and a payload of 0 bytes."""

HUGE = 2**31 - 1


def arrow(codec: str, level: int | None = None) -> Callable[[bytes], bytes]:
    """A codec of Arrow, at its best."""

    def compress(content: bytes) -> bytes:
        compressed: bytes = pa.Codec(codec, compression_level=level).compress(content, asbytes=True)
        return compressed

    return compress


CODECS: Mapping[int, Callable[[bytes], bytes]] = {
    1: arrow("lz4_raw"),
    2: lambda content: zlib.compress(content, 9),
    3: arrow("zstd", 19),
    4: arrow("snappy"),
}
"""By CompressionType."""


def publish(compression: int, claimed: int, uncompressed: int, content: bytes) -> bytes:
    """A SEND of a compressed batch."""
    command = peer.message((1, 1), (2, 0), (3, claimed))
    metadata = peer.message(
        (1, "name"), (2, 0), (3, 1), (8, compression), (9, uncompressed), (11, claimed)
    )
    payload = len(metadata).to_bytes(4, "big") + metadata + content
    return peer.frame(peer.message((1, 6), (6, command)), payload)


def charged(bench: Bench, frame: bytes) -> int:
    """Return the messages that a group without limits pays for a publish."""
    bench.attach(ns="group")
    client = bench.producing()
    assert client.sends(frame) == [frame]
    (traffic,) = bench.groups.collect(bench.now_ns)
    return traffic.messages


@pytest.mark.parametrize("messages", [2, 1000, 21_845, 800_000])
@pytest.mark.parametrize("compression", CODECS, ids=["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_a_batch_that_compresses_best_is_charged_in_full(
    bench: Bench, compression: int, messages: int
) -> None:
    """Equal messages, as small as they may be: no bound lets any of them pass uncharged."""
    batch = MESSAGE * messages
    frame = publish(compression, messages, len(batch), CODECS[compression](batch))

    assert charged(bench, frame) == messages


@pytest.mark.parametrize(
    ("compression", "most"),
    [(0, 3), (1, 850), (2, 3_440), (3, 48_546), (4, 73), (5, 3)],
    ids=["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY", "unknown"],
)
def test_a_claim_is_believed_as_far_as_the_codec_can_compress(
    bench: Bench, compression: int, most: int
) -> None:
    """Twenty bytes that claim 2^31-1 messages of 4 GiB."""
    assert charged(bench, publish(compression, HUGE, 2**32 - 1, bytes(20))) == most


def test_a_claim_is_believed_as_far_as_the_uncompressed_size(bench: Bench) -> None:
    """Consumers read no further."""
    assert charged(bench, publish(3, HUGE, 600, bytes(20))) == 100

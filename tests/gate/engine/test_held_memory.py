"""Held frames count with the memory that holding takes, beside their bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence

import pytest

from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client

FRAMES = 1000
READ = 100
"""Frames that one read brings."""


@pytest.mark.parametrize("content", [0, 14, 1000])
def test_held_publishes_count_what_they_take(bench: Bench, content: int) -> None:
    """However small they are, within a fifth; more is counted than is taken."""
    bench.limited(0)
    client = bench.producing(held_bytes_max=10**9)
    frames = [
        peer.send(1, at, content=b"x" * content, checksum=False) for at in range(FRAMES + READ)
    ]

    counts_what_it_takes(client, frames, client.sends_on)


@pytest.mark.parametrize("content", [0, 14, 1000])
def test_held_deliveries_count_what_they_take(bench: Bench, content: int) -> None:
    """The same, of batches whose number of messages is no small number."""
    bench.dispatch_limited(0)
    client = bench.client(held_bytes_max=10**9)
    client.opens(peer.subscribe(TOPIC))
    frames = [peer.delivery(1, 300 + at, b"y" * content) for at in range(FRAMES + READ)]

    counts_what_it_takes(client, frames, client.is_sent_on)


def counts_what_it_takes(
    client: Client, frames: Sequence[bytes], comes: Callable[[bytes], None]
) -> None:
    """Held frames that come in large reads count as much as they take."""
    reads = [b"".join(frames[at : at + READ]) for at in range(0, len(frames), READ)]
    comes(reads.pop(0))  # what a connection takes once
    counted_before = client.session.held_bytes

    tracemalloc.start()
    try:
        for read in reads:
            comes(read)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    counted = client.session.held_bytes - counted_before
    assert client.session.held_frames == FRAMES + READ
    assert taken <= counted <= 1.2 * taken

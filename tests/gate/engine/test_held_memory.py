"""Held frames count with the memory that holding takes, beside their bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.gate import peer
from tests.gate.conftest import Bench

FRAMES = 1000
READ = 100
"""Frames that one read brings."""


@pytest.mark.parametrize("content", [0, 14, 1000])
def test_held_frames_count_what_they_take(bench: Bench, content: int) -> None:
    """However small they are, within a fifth; more is counted than is taken."""
    bench.attach(ns="limited")
    bench.limit("limited", 0)
    client = bench.producing(held_bytes_max=10**9)
    sends = [
        peer.send(1, at, content=b"x" * content, checksum=False) for at in range(FRAMES + READ)
    ]
    reads = [b"".join(sends[at : at + READ]) for at in range(0, len(sends), READ)]
    client.sends_on(reads.pop(0))  # what a connection takes once
    counted_before = client.session.held_bytes

    tracemalloc.start()
    try:
        for read in reads:
            client.sends_on(read)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    counted = client.session.held_bytes - counted_before
    assert client.session.held_frames == FRAMES + READ
    assert taken <= counted <= 1.2 * taken

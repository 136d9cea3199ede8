"""Messages between two processes: whole, in order, and with an end that is told."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coordinator.gate.process.channel import (
    BUFFER_BYTES_MAX,
    Answer,
    Call,
    Channel,
    ChannelFull,
    receive_now,
)
from tests.gate.server.test_proxy import until


@asynccontextmanager
async def both_ends() -> AsyncIterator[tuple[Channel, Channel]]:
    """Two channels that lead to each other."""
    one, other = [await Channel.over(end) for end in socket.socketpair()]
    try:
        yield one, other
    finally:
        await one.close()
        await other.close()


async def test_what_is_sent_arrives_whole_and_in_order() -> None:
    """Small messages come several at a time, large ones in pieces."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    chance = random.Random(seed)
    sent = [
        Call("name", (b"x" * chance.choice([0, 1, 70_000, 3_000_000]),), {"turn": turn})
        for turn in range(50)
    ]
    heard: list[Any] = []
    async with both_ends() as (one, other):
        other.listen(heard.append)
        for message in sent:
            one.send(message)
        await until(lambda: len(heard) == len(sent))
    assert heard == sent


async def test_what_came_before_anybody_listened_is_heard_first() -> None:
    """The other end need not wait for that."""
    heard: list[Any] = []
    async with both_ends() as (one, other):
        one.send(Answer(1))
        one.send(Answer(2))
        one.listen(lambda _: one.send(Answer(3)))
        other.send(Answer(0))
        other.listen(heard.append)
        await until(lambda: len(heard) == 3)
    assert heard == [Answer(1), Answer(2), Answer(3)]


async def test_the_end_of_the_other_is_told() -> None:
    """Sending stays harmless."""
    async with both_ends() as (one, other):
        one.send(Answer(1))
        await one.close()
        with pytest.raises(EOFError):
            await other.ended()
        other.send(Answer(2))


async def test_what_cannot_be_understood_ends_the_channel() -> None:
    """The channel raises the reason."""

    def refuse(_: Any) -> None:
        raise ValueError("no such message")

    async with both_ends() as (one, other):
        other.listen(refuse)
        one.send(Answer(1))
        with pytest.raises(ValueError, match="no such message"):
            await other.ended()
        with pytest.raises(EOFError):
            await one.ended()


async def test_the_last_words_arrive() -> None:
    """The sender may close at once."""
    heard: list[Any] = []
    async with both_ends() as (one, other):
        other.listen(heard.append)
        one.send(Answer(1, error=ValueError("why")))
        await one.close()
        await until(lambda: len(heard) == 1)


async def test_an_end_that_takes_nothing_is_left_with_what_it_did_not_take() -> None:
    """It may be stopped; and what waits for it has a bound."""
    here, there = socket.socketpair()
    with there:
        channel = await Channel.over(here)
        too_much = b"x" * (BUFFER_BYTES_MAX + 1_000_000)  # the socket itself takes some of it
        channel.send(too_much)
        with pytest.raises(ChannelFull):
            channel.send(too_much)
        async with asyncio.timeout(30):
            await channel.close()


def test_the_first_message_can_be_waited_for_without_a_channel() -> None:
    """The rest stays for the channel; an end is told here, too."""
    with asyncio.Runner() as runner:
        here, there = socket.socketpair()
        with there:

            async def send() -> None:
                channel = await Channel.over(here)
                channel.send(Call("first"))
                channel.send(Call("second"))
                await channel.close()

            runner.run(send())
            assert receive_now(there) == Call("first")
            assert receive_now(there) == Call("second")
            with pytest.raises(EOFError):
                receive_now(there)

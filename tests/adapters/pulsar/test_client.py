"""The process of Pulsar's client, between a coordinator's socket and a stand-in for the library."""

from __future__ import annotations

import asyncio

import pulsar

from coordinator.adapters.pulsar.client.frames import (
    ClientSettings,
    NotUnderstoodError,
    Publish,
    Received,
    SendOutcome,
)
from tests.adapters.pulsar.library import Coordinator, Library, Message, client_of

TWO = ("one", "two")


async def connected(coordinator: Coordinator) -> None:
    """Wait until the first topic is connected."""
    while not (await coordinator.state()).is_connected:
        pass


async def test_messages_arrive_with_what_the_broker_says_of_them() -> None:
    """Names, time, properties, content."""
    library = Library()
    async with client_of(library) as (coordinator, _):
        await connected(coordinator)
        library.hear(None, Message(b"report"))
        assert await coordinator.next() == Received("p", 0, {"key": ""}, b"report")


async def test_names_that_are_no_text_cost_no_other_message() -> None:
    """Any producer can send them."""
    library = Library()
    async with client_of(library) as (coordinator, _):
        await connected(coordinator)
        library.hear(None, Message(b"1", producer=b"\xff"))
        library.hear(None, Message(b"2", key=b"\xff"))
        library.hear(None, Message(b"3"))
        assert await coordinator.next() == Received("p", 0, {"key": ""}, b"3")


async def test_a_publish_is_answered_for_each_topic() -> None:
    """By what the library says."""
    async with client_of(Library(), TWO) as (coordinator, _):
        while not all([(await coordinator.state()).is_connected for _ in TWO]):
            pass
        coordinator.send(Publish(7, {"a": "b"}, b"report"))
        assert [await coordinator.next() for _ in TWO] == [SendOutcome(7, is_taken=True)] * 2


async def test_a_publish_before_the_topic_is_connected_is_refused_with_the_reason_told() -> None:
    """In the words of the library; nothing waits."""
    library = Library(*[pulsar.Timeout("no broker")] * 1_000)
    async with client_of(library) as (coordinator, _):
        while not (state := await coordinator.state()).reason:
            pass
        assert (state.is_connected, "Timeout" in state.reason) == (False, True)
        coordinator.send(Publish(1, {}, b"report"))
        assert await coordinator.next() == SendOutcome(1, is_taken=False)


async def test_what_was_published_before_the_end_is_answered_before_it() -> None:
    """The coordinator shuts down its direction, and reads to the end."""
    async with client_of(Library()) as (coordinator, serving):
        await connected(coordinator)
        coordinator.send(Publish(1, {}, b"leaving"))
        coordinator.finish()
        assert await coordinator.next() == SendOutcome(1, is_taken=True)
        assert await coordinator.next() is None
        await serving


async def test_a_failure_of_any_kind_ends_the_client() -> None:
    """As where the machine has no thread left; the coordinator starts another one."""
    async with client_of(Library(RuntimeError("can't start new thread"))) as (_, serving):
        await asyncio.wait({serving})
        error = serving.exception()
    assert isinstance(error, RuntimeError)


async def test_what_the_coordinator_cannot_mean_ends_the_client() -> None:
    """Settings twice."""
    async with client_of(Library()) as (coordinator, serving):
        coordinator.send(ClientSettings("pulsar://b:6650", []))
        await asyncio.wait({serving})
        error = serving.exception()
    assert isinstance(error, NotUnderstoodError)

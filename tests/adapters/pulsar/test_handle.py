"""The coordinator's side of Pulsar's client: whatever becomes of its process, another one is started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import uvloop

from coordinator.adapters.pulsar.client import handle
from coordinator.adapters.pulsar.client.frames import ClientSettings, Received
from coordinator.adapters.pulsar.client.handle import ClientProcess
from coordinator.runtime.supervision import TaskSupervisor
from tests.contract.listening import eventually

TOPICS: Final = ("one", "two")
SETTINGS: Final = ClientSettings("pulsar://127.0.0.1:1", list(TOPICS))

BEGINNING: Final = """
import os, signal, socket, sys
from coordinator.adapters.pulsar.client.frames import *
end = socket.socket(fileno=0)
def say(*frames):
    end.sendall(b"".join(map(encode, frames)))
def wait():
    while end.recv(65536):
        pass
"""
"""Of programs that stand in for the client's process."""


@asynccontextmanager
async def client(
    program: str, received: Callable[[Received], None] = lambda _: None
) -> AsyncIterator[ClientProcess]:
    """A client whose process runs this program."""
    made = ClientProcess(
        "client", SETTINGS, received, TaskSupervisor(), ("-c", BEGINNING + program)
    )
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def test_it_hears_of_topics_messages_and_overflow() -> None:
    """As the process says it."""
    messages = list[Received]()
    says = """
say(TopicState(0, True, ""), TopicState(1, False, "no broker"))
say(Received("p", 5, {"k": "v"}, b"report"), Overflowed(2))
wait()
"""
    async with client(says, messages.append) as heard:
        await eventually(lambda: heard.overflowed == 2)
        assert heard.connected() == {"one": True, "two": False}
        assert heard.reason == "no broker"
        assert messages == [Received("p", 5, {"k": "v"}, b"report")]
        assert heard.received == 3


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("sys.exit(3)", "ended with exit code 3"),
        ("end.sendall(bytes(100)); wait()", "is not understood"),
        ("say(SendOutcome(99, True)); wait()", "is not understood"),
        ("say(TopicState(2, True, '')); wait()", "is not understood"),
        ("say(Publish(1, {}, b'')); wait()", "is not understood"),
    ],
)
async def test_a_process_that_ends_or_makes_no_sense_is_replaced(program: str, how: str) -> None:
    """Its topics are not connected meanwhile, and the reason says how it ended."""
    async with client("say(TopicState(0, True, ''));" + program) as made:
        await eventually(lambda: made.ended >= 2)
        await eventually(lambda: how in made.reason)
        assert not all(made.connected().values())


async def test_a_process_that_says_nothing_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library may have locked itself up."""
    monkeypatch.setattr(handle, "_LOOK_EVERY_S", 0.01)
    async with client("wait()") as made:
        await eventually(lambda: made.ended >= 1)
        await eventually(lambda: "said nothing any more" in made.reason)


async def test_a_process_that_answers_no_publish_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread of the library has died, and the others go on."""
    monkeypatch.setattr(handle, "_LOOK_EVERY_S", 0.01)
    goes_on = """
import threading, time
threading.Thread(target=wait, daemon=True).start()
while True:
    say(TopicState(0, True, ""))
    time.sleep(0.005)
"""
    async with client(goes_on) as made:
        await eventually(lambda: made.connected()["one"])
        made.publish(b"report", {})
        await eventually(lambda: made.unsent == len(TOPICS))
        await eventually(lambda: made.ended >= 1)


async def test_publishes_that_a_process_owed_an_answer_are_answered_when_it_ends() -> None:
    """Once for each topic, as are those while there is none."""
    answers = list[bool]()
    async with client("say(TopicState(0, True, '')); end.recv(1000); end.recv(1)") as made:
        await eventually(lambda: made.connected()["one"])
        made.publish(b"one", {}, answers.append)
        await eventually(lambda: made.ended >= 1)
        assert answers == [False] * 2
        assert (made.sent, made.unsent) == (0, 2)
    made.publish(b"two", {}, answers.append)
    assert answers == [False] * 4


async def test_its_own_process_outlives_signals_that_its_group_is_sent() -> None:
    """A terminal sends them to both; the coordinator ends it, after its last report."""
    made = ClientProcess("client", SETTINGS, lambda _: None, TaskSupervisor())
    await made.start()
    try:
        await eventually(lambda: bool(made.reason))  # it has loaded, and found no broker
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid_of(made), number)
        answers = list[bool]()
        made.publish(b"report", {}, answers.append)
        await eventually(lambda: answers == [False] * 2)
        assert made.ended == 0
    finally:
        await made.stop()


async def test_it_is_replaced_when_it_is_killed_and_ends_with_the_coordinators_end() -> None:
    """No process is left behind."""
    made = ClientProcess("client", SETTINGS, lambda _: None, TaskSupervisor())
    await made.start()
    await eventually(lambda: bool(made.reason))
    first = pid_of(made)
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: made.ended == 1 and made._writer is not None)
    second = pid_of(made)
    await made.stop()
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def pid_of(client: ClientProcess) -> int:
    """The process that runs now."""
    assert client.pid is not None
    return client.pid


async def test_a_stop_before_the_start_has_come_far_leaves_nothing() -> None:
    """It is told to stop while its process is being started."""
    made = ClientProcess("client", SETTINGS, lambda _: None, TaskSupervisor(), ("-c", "0"))
    await made.start()
    await asyncio.sleep(0)
    await made.stop()
    assert made.pid is None


CLOSES: Final = """
say(TopicState(0, True, ""))
while b"report" not in end.recv(65536):
    pass
end.close()
signal.pause()
"""
"""Ends its work at the first report, and not itself."""


async def test_a_process_that_closes_its_socket_is_believed_nothing_though_it_lives() -> None:
    """At once its topics are not connected, and what was published is answered."""
    answers = list[bool]()
    async with client(CLOSES) as made:
        await eventually(lambda: made.connected()["one"])
        made.publish(b"report", {}, answers.append)
        await eventually(lambda: bool(answers))
        assert (answers, made.connected()["one"], made.ended) == ([False] * 2, False, 0)
        made.publish(b"report", {}, answers.append)
        assert answers == [False] * 4


async def test_a_process_that_closes_its_socket_and_does_not_end_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a moment, in which it might have ended with a code to tell."""
    monkeypatch.setattr(handle, "_ENDS_WITHIN_S", 0.01)
    async with client("end.close(); signal.pause()") as made:
        await eventually(lambda: made.ended >= 1)
        await eventually(lambda: "closed its socket" in made.reason)


async def test_a_failure_of_who_is_told_of_an_answer_costs_no_other_answer() -> None:
    """It is counted, and the process goes on."""
    answers = """
say(TopicState(0, True, ""))
while b"report" not in end.recv(65536):
    pass
say(SendOutcome(1, True), SendOutcome(1, False))
wait()
"""

    def fail(_: bool) -> None:
        raise ValueError("told")

    supervisor = TaskSupervisor()
    made = ClientProcess(
        "client", SETTINGS, lambda _: None, supervisor, ("-c", BEGINNING + answers)
    )
    await made.start()
    try:
        await eventually(lambda: made.connected()["one"])
        made.publish(b"report", {}, fail)
        await eventually(lambda: supervisor.failures.get("client") is not None)
        await eventually(lambda: (made.sent, made.unsent) == (1, 1))
        assert supervisor.failures["client"].count == 2
        assert made.ended == 0
    finally:
        await made.stop()


async def test_a_failure_after_the_stop_starts_no_other_process(tmp_path: Path) -> None:
    """It would not hear that it is to end."""
    started = tmp_path / "started"
    says_farewell = f"""
with open({str(started)!r}, "a") as file:
    file.write("started ")
say(TopicState(0, True, ""))
wait()
say(Received("p", 0, {{}}, b"farewell"))
"""

    def fail(_: Received) -> None:
        raise ValueError("a fault")

    async with client(says_farewell, fail) as made:
        await eventually(lambda: made.connected()["one"])
    assert started.read_text() == "started "


async def test_what_its_library_writes_goes_where_the_log_goes(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Standard output may be an answer for a machine."""
    async with client("print('a word', flush=True); say(TopicState(0, True, '')); wait()") as made:
        await eventually(lambda: made.connected()["one"])
    out, err = capfd.readouterr()
    assert ("a word" in out, "a word" in err) == (False, True)


async def test_the_loop_has_its_turn_while_the_process_floods_it() -> None:
    """Frames that are there already are read without waiting for anything."""
    floods = """
end.sendall(b"".join([encode(Received("p", 5, {}, b""))] * 2_000))
wait()
"""
    turn, heard = 0, Counter[int]()

    def count(_: Received) -> None:
        heard[turn] += 1

    async with client(floods, count) as made:
        while made.received < 2_000:
            await asyncio.sleep(0)
            turn += 1
    assert heard.total() == 2_000
    assert max(heard.values()) <= handle._TURN


@pytest.mark.parametrize("stops", [False, True])
def test_a_process_that_has_just_ended_is_not_written_to(stops: bool) -> None:
    """A write to a socket that is closed raises on the sidecar's own loop."""
    answers = list[bool]()

    async def scenario() -> None:
        async with client("say(TopicState(0, True, '')); wait()") as made:
            await eventually(lambda: made.connected()["one"])
            assert made._writer is not None
            made._writer.transport.abort()
            if not stops:
                made.publish(b"report", {}, answers.append)
                assert answers == [False] * 2
                await eventually(lambda: made.ended == 1)

    uvloop.run(scenario())

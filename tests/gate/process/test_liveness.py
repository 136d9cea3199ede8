"""A gate that is slow is waited for; one that gives no sign of life is gone."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator.core.model import Rates
from coordinator.gate.process import channel, handle, liveness, spawning
from coordinator.gate.process.liveness import Liveness, answer_liveness
from coordinator.insight.model.gate_views import GateSlowness
from coordinator.ports import GateGone
from tests.gate import peer
from tests.gate.process import busy_gate
from tests.gate.process.processes import ProcessSite, site, speaking
from tests.gate.server.test_proxy import until

SOON_S = 0.05


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The file that ends the work of a busy gate."""
    return tmp_path / "released"


def release(released: Path) -> None:
    """End the work of a busy gate."""
    released.touch()


@asynccontextmanager
async def busy_site(released: Path) -> AsyncIterator[ProcessSite]:
    """A gate that is busy from `Gate.holds` on, until the file is there; its answers are late soon."""
    program = (str(Path(busy_gate.__file__)), str(released))
    async with site(speaks=False, program=program) as here:
        here.gate.slow_after_s = SOON_S
        yield here


def count_signs(gate: handle.GateProcess, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return the list of the answers to the question whether the gate lives, as it grows."""
    signs: list[bool] = []
    comes_within = liveness.comes_within

    async def counted(answer: asyncio.Future[object], within_s: float) -> bool:
        signs.append(await comes_within(answer, within_s))
        return signs[-1]

    monkeypatch.setattr(liveness, "comes_within", counted)
    monkeypatch.setattr(liveness, "_ASKED_EVERY_S", 0.001)
    return signs


async def test_a_gate_that_a_client_keeps_busy_is_slow_and_keeps_its_connections(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread answers all the while, so the coordinator waits, and tells the spell once."""
    with capture_logs() as logs:
        async with busy_site(released) as here:
            here.gate.slow_after_s = 60.0  # it stands still a second after the last word
            async with speaking(here.gate):
                client = await here.client()
            here.gate.slow_after_s = SOON_S
            signs = count_signs(here.gate, monkeypatch)
            late = [
                asyncio.ensure_future(each) for each in (here.gate.holds(), here.gate.collect())
            ]
            await until(lambda: len(signs) >= 20)
            assert all(signs)
            assert not any(answer.done() for answer in late)
            assert here.gate.slowness().is_slow

            release(released)
            await asyncio.gather(*late)
            assert here.gate.slowness() == GateSlowness(spells=1)
            async with speaking(here.gate):
                assert await client.asks(peer.send(1, 1)) == peer.receipt(1, 1)
    told = [log["event"] for log in logs if "slow" in log["event"]]
    assert told[:2] == [
        "the gate is slow: its answers are late, and waited for",
        "the gate was slow",
    ]


async def test_a_gate_whose_process_is_stopped_is_gone_after_the_stated_time() -> None:
    """No thread of it runs; so it may be stuck in C code, and nothing would ever come."""
    async with site() as here:
        here.gate.slow_after_s = SOON_S
        here.gate.liveness.lives_within_s = 0.2
        here.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(GateGone, match=r"no sign of life for 0\.2 s"):
                await here.gate.collect()
            with pytest.raises(GateGone):
                await here.gate.ends()
        finally:
            here.process.send_signal(signal.SIGCONT)


async def test_a_gate_that_is_killed_while_it_is_slow_is_gone_at_once(released: Path) -> None:
    """Its end is told by the channel, whatever was asked."""
    async with busy_site(released) as here:
        late = asyncio.ensure_future(here.gate.holds())
        await until(lambda: here.gate.slowness().is_slow)
        here.process.kill()
        with pytest.raises(GateGone, match="has ended"):
            await late


async def test_a_slow_gate_is_closed_within_a_stated_time(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its process is ended without an answer."""
    monkeypatch.setattr(handle, "CLOSES_WITHIN_S", 0.2)
    monkeypatch.setattr(spawning, "_ENDS_WITHIN_S", 0.2)
    async with busy_site(released) as here:
        late = asyncio.ensure_future(here.gate.holds())
        await until(lambda: here.gate.slowness().is_slow)
        with pytest.raises(GateGone, match=r"has not answered for 0\.3 s"):
            await here.gate.drain(0.1)
        with pytest.raises(GateGone):
            await late
        await here.gate.close()
    assert here.process.returncode == -signal.SIGKILL


async def test_a_gate_that_reads_nothing_is_gone_when_what_waits_for_it_has_reached_its_bound(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instruction that was left out would never be in force."""
    async with busy_site(released) as here:
        late = asyncio.ensure_future(here.gate.holds())
        await until(lambda: here.gate.slowness().is_slow)
        monkeypatch.setattr(channel, "BUFFER_BYTES_MAX", 1_000)
        for turn in range(10_000):
            here.gate.set_limits(f"group-{turn}", Rates(publish_messages=1))
        with pytest.raises(GateGone, match="reads nothing"):
            await late
        here.gate.when_in_force(lambda: pytest.fail("it cannot be"))
        release(released)


async def test_a_gate_that_confirms_nothing_is_gone_when_too_many_messages_wait_for_it(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them may be sent before the limits that it announces are in force."""
    monkeypatch.setattr(handle, "WAITING_MAX", 3)
    async with busy_site(released) as here:
        late = asyncio.ensure_future(here.gate.holds())
        await until(lambda: here.gate.slowness().is_slow)
        here.gate.set_limits("group", Rates(publish_messages=1))
        for _ in range(3):
            here.gate.when_in_force(lambda: pytest.fail("it cannot be"))
        assert not late.done()
        here.gate.when_in_force(lambda: pytest.fail("it cannot be"))
        with pytest.raises(GateGone, match="lets 3 messages to others wait"):
            await late
        release(released)


async def test_a_coordinator_that_was_stopped_itself_does_not_blame_its_gate() -> None:
    """The answer came while it could not hear it."""
    async with site() as here:
        here.gate.slow_after_s = 1.0
        question = asyncio.ensure_future(here.gate.figures())
        await asyncio.sleep(0)
        time.sleep(1.5)  # noqa: ASYNC251 - that is what being stopped is like
        assert (await question).connections == 0
        assert here.gate.slowness() == GateSlowness()


async def test_answers_that_are_late_at_the_same_time_are_one_spell() -> None:
    """The next one begins when none of them is late any more."""
    ours, its = socket.socketpair()
    with ours, its:
        answer_liveness(its)
        lives = Liveness(ours, pytest.fail)
        with lives.late():
            with lives.late():
                pass
            assert (lives.slowness().spells, lives.slowness().is_slow) == (1, True)
        assert lives.slowness() == GateSlowness(spells=1)
        with lives.late():
            assert (lives.slowness().spells, lives.slowness().is_slow) == (2, True)

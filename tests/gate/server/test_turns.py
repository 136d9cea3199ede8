"""A connection with many small frames leaves the event loop to the others in between."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

from coordinator.core.model import Attachments, Rates
from coordinator.gate.server.turns import PASS_DECISIONS, TURN_DECISIONS, Turns
from tests.gate import peer
from tests.gate.server.hostile_site import Site, site

FRAMES = 20_000


@dataclass
class Taker:
    """A connection with some decisions to make."""

    turns: Turns
    name: str
    story: list[str]
    left: int = field(default=3 * TURN_DECISIONS)

    def __hash__(self) -> int:
        return id(self)

    def take_turn(self) -> None:
        """Decide a turn, and ask for the next one if that was not all."""
        self.story.append(self.name)
        self.turns.spend(TURN_DECISIONS)
        self.left -= TURN_DECISIONS
        if self.left > 0:
            self.turns.ask(self)


async def passes(count: int) -> None:
    """Let the event loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_connections_that_wait_have_one_turn_after_the_other() -> None:
    """Each has its second turn when all have had their first."""
    turns, story = Turns(), list[str]()
    for name in "abc":
        turns.ask(Taker(turns, name, story))
    await passes(10)
    assert "".join(story) == "abcabcabc"


async def test_a_pass_has_a_bound_for_all_connections_together() -> None:
    """The other connections have their turns in the next passes."""
    turns, story = Turns(), list[str]()
    for number in range(20):
        turns.ask(Taker(turns, str(number), story, TURN_DECISIONS))
    await passes(1)
    assert len(story) == PASS_DECISIONS // TURN_DECISIONS
    await passes(10)
    assert story == [str(number) for number in range(20)]


async def test_after_the_decisions_of_a_pass_nothing_is_decided_until_the_next_one() -> None:
    """Reads with few frames count as nothing."""
    turns = Turns()
    seen = []
    for decisions in (*[20] * 1_000, PASS_DECISIONS):
        turns.spend(decisions)
        seen.append(turns.are_over)
    await passes(2)
    assert [*seen, turns.are_over] == [False] * 1_000 + [True, False]


async def test_a_connection_that_leaves_has_no_turn() -> None:
    """Its client is gone."""
    turns, story = Turns(), list[str]()
    gone = Taker(turns, "gone", story)
    turns.ask(gone)
    turns.leave(gone)
    await passes(3)
    assert story == []


def withheld(here: Site) -> int:
    """Permits that the gate has taken from clients and not passed on."""
    return sum(session.withheld_permits for session in here.gate._connections.sessions())


async def test_no_pass_of_the_loop_decides_more_than_its_bound() -> None:
    """Five clients send 20,000 FLOWs each in one go; all are decided, and none is lost."""
    async with site() as here:
        here.gate.set_attachments(Attachments({}, {"tenant/ns": "group"}))
        here.gate.set_limits("group", Rates(dispatch_messages=0))
        clients = [await here.client(consumes=True) for _ in range(5)]
        before = withheld(here)
        for client in clients:
            client.writer.write(peer.flow(1, 1) * FRAMES)
        seen = [before]
        while seen[-1] - before < 5 * FRAMES:
            await asyncio.sleep(0)
            seen.append(withheld(here))
        steps = [after - earlier for earlier, after in itertools.pairwise(seen)]
        assert max(steps) <= PASS_DECISIONS + TURN_DECISIONS
        assert [await client.asks(peer.PING) for client in clients] == [peer.PONG] * 5
        assert withheld(here) == before + 5 * FRAMES

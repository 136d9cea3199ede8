"""A connection with many small frames leaves the event loop to the others in between."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

from coordinator.gate.protocol.refusals import RefusalReason
from coordinator.gate.protocol.stream import WORK_BYTES
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
    turn: int = TURN_DECISIONS
    served: int = 0

    def __hash__(self) -> int:
        return id(self)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the decisions that are left."""
        return max(0, self.left) * WORK_BYTES

    def take_turn(self) -> None:
        """Decide a turn, and ask for the next one if that was not all."""
        self.story.append(self.name)
        self.turns.spend(self, self.turn)
        self.left -= self.turn
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
    client = Taker(turns, "client", [])
    seen = []
    for decisions in (*[20] * 1_000, PASS_DECISIONS):
        turns.spend(client, decisions)
        seen.append(turns.are_over)
    await passes(2)
    assert [*seen, turns.are_over] == [False] * 1_000 + [True, False]


async def test_a_short_read_of_who_had_little_is_decided_at_once() -> None:
    """Even after the decisions of a pass; a long read waits, and so does a connection that had more."""
    turns, story = Turns(), list[str]()
    greedy, honest = Taker(turns, "greedy", story), Taker(turns, "honest", story)
    turns.ask(Taker(turns, "waits", story))
    turns.spend(greedy, PASS_DECISIONS)

    assert turns.serves_now(honest, 100)
    assert not turns.serves_now(honest, 100_000)
    assert not turns.serves_now(greedy, 100)
    await passes(10)
    assert turns.serves_now(greedy, 100_000)


async def test_who_has_little_to_decide_waits_for_no_crowd_of_others() -> None:
    """Its turn comes first, though a hundred with long turns asked before it."""
    turns, story = Turns(), list[str]()
    for _ in range(100):
        turns.ask(Taker(turns, "crowd", story))
    await passes(2)
    before = len(story)
    turns.ask(Taker(turns, "honest", story, 10, 10))
    await passes(1)
    assert story[before] == "honest"


async def test_who_had_more_than_a_turn_waits_longer_for_the_next() -> None:
    """A frame that counts as ten turns is made up for: the other one has ten in the meantime."""
    turns, story = Turns(), list[str]()
    turns.ask(Taker(turns, "L", story, 20 * TURN_DECISIONS, 10 * TURN_DECISIONS))
    turns.ask(Taker(turns, "s", story, 20 * TURN_DECISIONS))
    await passes(30)
    assert "".join(story) == "L" + 9 * "s" + "sL" + 10 * "s"


async def test_what_was_before_is_forgotten_when_none_waits() -> None:
    """A client that has sent for hours has its turns like one that has just come."""
    turns, story = Turns(), list[str]()
    old = Taker(turns, "o", story)
    for _ in range(1_000):
        turns.spend(old, TURN_DECISIONS)
    await passes(2)
    for taker in (Taker(turns, "n", story), old):
        turns.ask(taker)
    await passes(10)
    assert "".join(story) == "nonono"


async def test_a_connection_that_leaves_has_no_turn() -> None:
    """Its client is gone."""
    turns, story = Turns(), list[str]()
    gone = Taker(turns, "gone", story)
    turns.ask(gone)
    turns.leave(gone)
    await passes(3)
    assert story == []


def dropped(here: Site) -> int:
    """The commands of consumers that do not exist."""
    return here.gate.figures().refusals.get(RefusalReason.UNKNOWN_CONSUMER.value, 0)


async def test_no_pass_of_the_loop_decides_more_than_its_bound() -> None:
    """Five clients send 20,000 commands each in one go; all are decided, and none is lost."""
    async with site() as here:
        clients = [await here.client() for _ in range(5)]
        for client in clients:
            client.writer.write(peer.flow(9, 1) * FRAMES)
        seen = [0]
        while seen[-1] < 5 * FRAMES:
            await asyncio.sleep(0)
            seen.append(dropped(here))
        steps = [after - earlier for earlier, after in itertools.pairwise(seen)]
        assert max(steps) <= PASS_DECISIONS + TURN_DECISIONS
        assert [await client.asks(peer.PING) for client in clients] == [peer.PONG] * 5
        assert dropped(here) == 5 * FRAMES

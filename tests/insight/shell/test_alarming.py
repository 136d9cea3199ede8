"""Telling a receiver of alarms: once each, by one sidecar, and again after failures."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.memory.surroundings import ManualClock, MemoryReceiver
from coordinator.core.events import MembersChanged
from coordinator.core.model import Member
from coordinator.core.settings import AlarmSettings, CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.alarms import AlarmCondition, AlarmKind
from coordinator.insight.shell import alarming
from coordinator.insight.shell.alarming import Alarming
from coordinator.insight.shell.sampler import Sampler

AT_ONCE = AlarmSettings(raise_after_ns=0, clear_after_ns=0)
SHARED = AlarmCondition(AlarmKind.PEER_LOST, "b9", "b9 is gone")
OWN = AlarmCondition(AlarmKind.BUS_SILENT, "b2", "b2 hears nothing")


class Site:
    """b2's sidecar, which tells what a test makes it see."""

    def __init__(self, receiver: MemoryReceiver) -> None:
        self.state = CoordinatorState(CoreSettings(broker="b2", alarms=AT_ONCE))
        self.watch = Sampler(self.state, ManualClock())
        self.receiver = receiver
        self.alarming = Alarming(self.state, self.watch, receiver)
        self._now_ns = 0

    def members(self, *names: str) -> None:
        """Return the live members."""
        members = tuple(Member(name, 1) for name in names)
        self.state.handle(MembersChanged(members), self._now_ns)

    def see(self, *sightings: AlarmCondition) -> None:
        """Look twice at the present conditions, so that ended ones clear."""
        for _ in range(2):
            self._now_ns += 1
            self.watch.alarms.look(sightings, self._now_ns)

    def told(self) -> list[tuple[str, str]]:
        """Return the subjects and states that the receiver has taken since the last call."""
        taken, self.receiver.taken = self.receiver.taken, []
        return [
            (notice.sighting.subject, "over" if notice.ended_ms else "begins") for notice in taken
        ]


@pytest.fixture
def site() -> Site:
    """b2's sidecar, the only one."""
    site = Site(MemoryReceiver())
    site.members("b2")
    return site


async def test_an_alarm_is_told_once_when_it_begins_and_once_when_it_is_over(site: Site) -> None:
    """The number of checks does not matter."""
    site.see(SHARED)
    for _ in range(3):
        assert await site.alarming.tell()
    assert site.told() == [("b9", "begins")]

    site.see()
    for _ in range(3):
        assert await site.alarming.tell()
    assert site.told() == [("b9", "over")]


async def test_a_receiver_that_was_away_hears_what_is_still_the_case(site: Site) -> None:
    """It does not hear of alarms that began and ended meanwhile."""
    site.see(SHARED)
    await site.alarming.tell()
    site.told()
    site.receiver.away = True
    site.see(SHARED, AlarmCondition(AlarmKind.PEER_LOST, "b7", "gone"))
    assert not await site.alarming.tell()
    site.see(OWN)
    assert not await site.alarming.tell()
    site.receiver.away = False

    assert await site.alarming.tell()

    assert site.told() == [("b2", "begins"), ("b9", "over")]
    assert (site.alarming.failed, site.alarming.delivered) == (2, 2)


async def test_what_all_see_is_told_by_the_lowest_name_only(site: Site) -> None:
    """Each sidecar tells of its own alarms itself."""
    site.members("b1", "b2")
    site.see(SHARED, OWN)
    await site.alarming.tell()

    assert site.told() == [("b2", "begins")]


async def test_the_next_speaker_tells_all_that_fires(site: Site) -> None:
    """The one before may have died without telling; receivers know alarms by their labels."""
    site.members("b1", "b2")
    site.see(SHARED, OWN)
    await site.alarming.tell()
    site.told()
    site.members("b2")

    await site.alarming.tell()

    assert site.told() == [("b9", "begins")]


async def test_a_former_speaker_leaves_the_end_to_the_next(site: Site) -> None:
    """It forgets what it has told of what all see."""
    site.see(SHARED)
    await site.alarming.tell()
    site.told()
    site.members("b1", "b2")
    site.see()

    await site.alarming.tell()

    assert site.told() == []


async def test_many_alarms_are_told_in_messages_of_a_bounded_size(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver has a bound of its own on what it takes."""
    monkeypatch.setattr(alarming, "MAX_NOTICES", 2)
    site.see(*(AlarmCondition(AlarmKind.PEER_LOST, f"x{number}", "gone") for number in range(5)))

    await site.alarming.tell()

    assert len(site.told()) == 5
    assert site.alarming.delivered == 3


async def test_after_failures_it_waits_longer_each_time_and_not_after_success(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a minute."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        site.receiver.away = len(pauses) < 8
        if len(pauses) == 10:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    site.see(SHARED)
    with pytest.raises(asyncio.CancelledError):
        await site.alarming.run()

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 1, 1]

"""Trees are recorded whole, second by second, by one member in turn, and of very many some at a time."""

from __future__ import annotations

from pathlib import Path

from coordinator.adapters.recorder.tables import RecordedTable
from coordinator.adapters.recorder.trees import GROUPS_PER_TURN
from coordinator.core.events import GroupsChanged, MembersChanged, Tick, TrafficCounted
from coordinator.core.model import Member, MonitoringClass, ResourceGroup
from coordinator.core.traffic import Traffic
from tests.adapters.recorder.test_recorder import Core
from tests.adapters.recorder.world import START_NS, Recording
from tests.core.tree_groups import group

MESSAGES = "publishRateInMsgs"
SHOP = (
    group("shop", 1_000),
    group("web", parent="shop"),
    group("orders", parent="shop", guarantee=600),
    group("alone", 50),
)


def pass_seconds(core: Core, seconds: int, *groups: str) -> None:
    """Let clients of these groups publish a message a second."""
    for _ in range(seconds):
        core.recording.clock.advance(1)
        traffic = [Traffic(name, MonitoringClass.PUBLISH, 1, participants=1) for name in groups]
        core.send(TrafficCounted(tuple(traffic)), Tick())


def begun(recording: Recording, groups: tuple[ResourceGroup, ...]) -> Core:
    """A core that has these groups."""
    core = Core(recording)
    core.become_active()
    core.send(GroupsChanged(groups))
    return core


def test_every_group_of_a_tree_in_use_is_a_row_with_its_place(tmp_path: Path) -> None:
    """In both dimensions of the class with traffic; no other group is, and no tree without traffic."""
    with Recording(tmp_path) as recording:
        core = begun(recording, SHOP)
        pass_seconds(core, 2, "alone")
        pass_seconds(core, 3, "web", "alone")

    rows = recording.rows(RecordedTable.TREES)
    last = [row for row in rows if row["second"] == rows[-1]["second"]]
    shown = ("resource_group", "above", "cluster_limit", "guarantee", "entitled")
    assert [tuple(row[each] for each in shown) for row in last if row["dimension"] == MESSAGES] == [
        ("shop", [], 1_000, 0, 1_000),
        ("orders", ["shop"], 1_000, 600, 800),
        ("web", ["shop"], 1_000, 0, 200),
    ]
    assert {row["part"] for row in last if row["dimension"] != MESSAGES} == {None}
    assert len(last) == 6


def test_members_take_turns_at_recording_trees(tmp_path: Path) -> None:
    """All see the same parts."""
    with Recording(tmp_path) as recording:
        core = begun(recording, SHOP)
        core.send(MembersChanged((Member("broker-1", 3), Member("broker-2", 1))))
        pass_seconds(core, 9, "web")

    rows = recording.rows(RecordedTable.TREES)
    seconds = {round(row["second"].timestamp()) - START_NS // 10**9 for row in rows}
    assert seconds
    assert all(second % 2 == 0 for second in seconds)


def test_of_very_many_groups_some_are_recorded_at_a_time(tmp_path: Path) -> None:
    """All of them within a few seconds, and every tree whole."""
    children, roots = 60, ("a", "b", "c")
    groups = [group(root, 1_000) for root in roots]
    groups += [group(f"{root}{n}", parent=root) for root in roots for n in range(children)]
    with Recording(tmp_path) as recording:
        core = begun(recording, tuple(groups))
        pass_seconds(core, 8, "a0", "b0", "c0")

    by_second: dict[object, set[str]] = {}
    for row in recording.rows(RecordedTable.TREES):
        by_second.setdefault(row["second"], set()).add(row["resource_group"])
    assert {len(found) for found in by_second.values()} == {children + 1}
    assert children < GROUPS_PER_TURN < 2 * children
    assert set().union(*by_second.values()) == {each.name for each in groups}

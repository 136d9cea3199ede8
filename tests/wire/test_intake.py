"""The intake reads a report at once, or keeps it until its definition arrives."""

import pytest

from coordinator.core.model import (
    GroupUsage,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
)
from coordinator.wire import intake
from coordinator.wire.fields import BadReport
from coordinator.wire.intake import Intake
from coordinator.wire.reports import encode
from coordinator.wire.senders import Opened

NOW = 1_000


def definition(name: str, version: int) -> ResourceGroup:
    """A group of which only name and version matter."""
    return ResourceGroup(name, Rates(), configuration_version=version)


def payload(sequence: int, version: int | None, broker: str = "b1") -> Opened:
    """A report on one definition, or on none."""
    usages = {MonitoringClass.PUBLISH: Usage(participants=1)}
    entries = () if version is None else (GroupUsage("any", version, usages),)
    report = encode(UsageReport(broker, 1, sequence, 1, entries))
    return Opened(broker, report, len(report))


def told(found: list[intake.ReceivedReport]) -> list[tuple[str, int, list[str]]]:
    """Sender, sequence and groups of reports."""
    return [(of.broker, of.sequence, [entry.group for entry in of.groups]) for of, _ in found]


def test_a_report_waits_for_its_definition_and_later_ones_of_its_sender_behind_it() -> None:
    """No report is lost or overtakes, and other senders do not wait."""
    room = Intake()
    assert room.set_groups([definition("orders", 7)]) == []

    assert room.read(payload(1, 8), NOW) is None
    assert room.read(payload(2, 7), NOW) is None
    other = room.read(payload(1, 7, "b2"), NOW)
    assert other is not None
    assert told([other]) == [("b2", 1, ["orders"])]
    assert other.size == payload(1, 7, "b2").size

    assert room.set_groups([definition("orders", 7), definition("new", 8)]) == [
        room.read(payload(1, 8), NOW),
        room.read(payload(2, 7), NOW),
    ]


def test_a_report_goes_on_waiting_for_another_definition() -> None:
    """Each change of the definitions lets through what can be read by then."""
    room = Intake()
    assert room.read(payload(1, 7), NOW) is None
    assert room.read(payload(2, 8), NOW) is None

    assert told(room.set_groups([definition("orders", 7)])) == [("b1", 1, ["orders"])]
    assert room.read(payload(3, 7), NOW) is None
    both = [definition("orders", 7), definition("new", 8)]
    assert told(room.set_groups(both)) == [("b1", 2, ["new"]), ("b1", 3, ["orders"])]


def test_a_definition_that_was_replaced_or_deleted_is_still_understood() -> None:
    """Its sender has not seen the change yet."""
    room = Intake()
    room.set_groups([definition("orders", 7), definition("old", 8)])
    room.set_groups([definition("orders", 9)])

    found = [room.read(payload(1, version), NOW) for version in (7, 8, 9)]
    assert told([each for each in found if each is not None]) == [
        ("b1", 1, ["orders"]), ("b1", 1, ["old"]), ("b1", 1, ["orders"]),
    ]  # fmt: skip


def test_only_so_many_replaced_definitions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound a report on the oldest waits, as on one that was never known."""
    monkeypatch.setattr(intake, "RETIRED_MAX", 1)
    room = Intake()
    for version in (7, 8, 9):
        room.set_groups([definition("orders", version)])

    assert room.read(payload(1, 8, "b2"), NOW) is not None
    assert room.read(payload(1, 7), NOW) is None


def test_a_version_that_two_definitions_share_tells_neither() -> None:
    """Their senders tell them by name, as soon as they have seen both."""
    room = Intake()
    room.set_groups([definition("orders", 7), definition("audit", 7)])

    assert room.read(payload(1, 7), NOW) is None


def test_at_the_bound_the_oldest_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the bus had lost it."""
    monkeypatch.setattr(intake, "WAITING_BYTES_MAX", 2 * payload(1, 7).size)
    room = Intake()
    for sequence in (1, 2, 3):
        assert room.read(payload(sequence, 7), NOW) is None

    assert room.dropped() == [(intake.NO_ROOM, 1)]
    assert told(room.set_groups([definition("orders", 7)])) == [
        ("b1", 2, ["orders"]), ("b1", 3, ["orders"]),
    ]  # fmt: skip


def test_garbage_does_not_wait() -> None:
    """It is refused as it comes."""
    with pytest.raises(BadReport):
        Intake().read(Opened("b1", b"garbage", 7), NOW)


def test_nothing_waits_for_ever() -> None:
    """A report that waits in vain is dropped; readable ones behind it are read then."""
    room = Intake()
    room.set_groups([definition("orders", 7)])
    assert room.read(payload(1, 8), NOW) is None
    assert room.read(payload(2, 7), NOW + 1) is None
    assert room.expire(NOW + intake.WAITING_NS) == []

    assert told(room.expire(NOW + intake.WAITING_NS + 1)) == [("b1", 2, ["orders"])]
    assert room.dropped() == [(intake.TOO_LONG, 1)]
    assert told([room.read(payload(3, 7), NOW) or pytest.fail("it waits")]) == [
        ("b1", 3, ["orders"])
    ]
    assert room.dropped() == []


def test_what_can_never_be_read_costs_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that fills the room pushes out its own reports."""
    monkeypatch.setattr(intake, "WAITING_OF_ONE_MAX", 3)
    monkeypatch.setattr(intake, "WAITING_BYTES_MAX", 6 * payload(1, 99).size)
    room = Intake()
    assert room.read(payload(1, 8, "b2"), NOW) is None
    for sequence in range(1, 50):
        assert room.read(payload(sequence, 99), NOW) is None

    assert room.dropped() == [(intake.NO_ROOM, 46)]
    assert told(room.set_groups([definition("new", 8)])) == [("b2", 1, ["new"])]


def test_a_report_that_turns_out_to_be_none_costs_no_other_one() -> None:
    """It waited for two definitions, which are two versions of one group: it cannot be."""
    room = Intake()
    usages = {MonitoringClass.PUBLISH: Usage(participants=1)}
    twice = tuple(GroupUsage(name, version, usages) for name, version in (("x", 7), ("y", 8)))
    report = encode(UsageReport("b1", 1, 1, 1, twice))
    assert room.read(Opened("b1", report, len(report)), NOW) is None
    assert room.read(payload(2, 8), NOW) is None
    assert room.read(payload(1, 8, "b2"), NOW) is None
    room.set_groups([definition("orders", 7)])

    found = room.set_groups([definition("orders", 8)])
    assert told(found) == [("b1", 2, ["orders"]), ("b2", 1, ["orders"])]
    assert room.dropped() == [("definitions has two versions of one group", 1)]

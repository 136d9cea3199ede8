"""What may be read as it arrives, and what has to wait for a definition."""

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


def definition(name: str, version: int) -> ResourceGroup:
    """A group of which only name and version matter."""
    return ResourceGroup(name, Rates(), configuration_version=version)


def payload(sequence: int, version: int | None, broker: str = "b1") -> bytes:
    """A report on one definition, or on none."""
    usages = {MonitoringClass.PUBLISH: Usage(participants=1)}
    entries = () if version is None else (GroupUsage("any", version, usages),)
    return encode(UsageReport(broker, 1, sequence, 1, entries))


def told(found: list[intake.Received]) -> list[tuple[str, int, list[str]]]:
    """Sender, sequence and groups of reports."""
    return [(of.broker, of.sequence, [entry.group for entry in of.groups]) for of, _ in found]


def test_a_report_waits_for_its_definition_and_later_ones_of_its_sender_behind_it() -> None:
    """Nothing is lost or overtakes, and nobody else waits."""
    room = Intake()
    assert room.set_groups([definition("orders", 7)]) == []

    assert room.read(payload(1, 8)) is None
    assert room.read(payload(2, 7)) is None
    other = room.read(payload(1, 7, "b2"))
    assert other is not None
    assert told([other]) == [("b2", 1, ["orders"])]
    assert other.size == len(payload(1, 7, "b2"))

    assert room.set_groups([definition("orders", 7), definition("new", 8)]) == [
        room.read(payload(1, 8)),
        room.read(payload(2, 7)),
    ]


def test_a_report_goes_on_waiting_for_another_definition() -> None:
    """Each change of the definitions lets through what can be read by then."""
    room = Intake()
    assert room.read(payload(1, 7)) is None
    assert room.read(payload(2, 8)) is None

    assert told(room.set_groups([definition("orders", 7)])) == [("b1", 1, ["orders"])]
    assert room.read(payload(3, 7)) is None
    both = [definition("orders", 7), definition("new", 8)]
    assert told(room.set_groups(both)) == [("b1", 2, ["new"]), ("b1", 3, ["orders"])]


def test_a_definition_that_was_replaced_or_deleted_is_still_understood() -> None:
    """Its sender has not seen the change yet."""
    room = Intake()
    room.set_groups([definition("orders", 7), definition("old", 8)])
    room.set_groups([definition("orders", 9)])

    found = [room.read(payload(1, version)) for version in (7, 8, 9)]
    assert told([each for each in found if each is not None]) == [
        ("b1", 1, ["orders"]), ("b1", 1, ["old"]), ("b1", 1, ["orders"]),
    ]  # fmt: skip


def test_only_so_many_replaced_definitions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound a report on the oldest waits, as on one that was never known."""
    monkeypatch.setattr(intake, "RETIRED_MAX", 1)
    room = Intake()
    for version in (7, 8, 9):
        room.set_groups([definition("orders", version)])

    assert room.read(payload(1, 8, "b2")) is not None
    assert room.read(payload(1, 7)) is None


def test_a_version_that_two_definitions_share_tells_neither() -> None:
    """Their senders tell them by name, as soon as they have seen both."""
    room = Intake()
    room.set_groups([definition("orders", 7), definition("audit", 7)])

    assert room.read(payload(1, 7)) is None


def test_at_the_bound_the_oldest_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the bus had lost it."""
    monkeypatch.setattr(intake, "WAITING_BYTES_MAX", 2 * len(payload(1, 7)))
    room = Intake()
    for sequence in (1, 2, 3):
        assert room.read(payload(sequence, 7)) is None

    assert room.dropped == 1
    assert told(room.set_groups([definition("orders", 7)])) == [
        ("b1", 2, ["orders"]), ("b1", 3, ["orders"]),
    ]  # fmt: skip


def test_garbage_does_not_wait() -> None:
    """It is refused as it comes."""
    with pytest.raises(BadReport):
        Intake().read(b"garbage")

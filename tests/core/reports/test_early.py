"""A report that is ahead of ZooKeeper waits until ZooKeeper confirms its sender."""

import pytest

from coordinator.core.model import Account, Member
from coordinator.core.reports import early
from coordinator.core.reports.early import EARLY_MAX, EARLY_OF_ONE_MAX, GRACE_NS, EarlyReports

REBORN = Account("b1", 9)


def seen(*members: Member) -> EarlyReports[str]:
    """Return an empty buffer that has seen these members."""
    reports = EarlyReports[str]()
    reports.confirm({member.broker: member for member in members})
    return reports


def test_a_restarted_brokers_first_reports_count_as_soon_as_zookeeper_shows_it() -> None:
    """They count in the order of their arrival."""
    reports = seen(Member("b1", 7), Member("b2", 8))
    assert reports.is_ahead(REBORN.incarnation)
    for item in ("first", "second"):
        reports.keep(REBORN, item, 1, 0)

    assert reports.confirm({"b1": Member("b1", 9)}) == ["first", "second"]
    assert len(reports) == 0


def test_what_is_not_ahead_of_every_registration_never_waits() -> None:
    """Such a registration is over: registrations have one order for all brokers."""
    reports = seen(Member("b1", 7), Member("b2", 8))

    assert [reports.is_ahead(number) for number in (7, 8, 9, 2**62)] == [False, False, True, True]
    reports.confirm({})
    assert not reports.is_ahead(8)


def test_what_zookeeper_never_shows_is_given_up() -> None:
    """After the grace the report is dropped, and its sender's name is told."""
    reports = seen(Member("b1", 7))
    reports.keep(Account("b1", 2**62), "forged", 1, 5)

    assert reports.expire(5 + GRACE_NS) == []
    assert reports.expire(6 + GRACE_NS) == [Account("b1", 2**62)]
    assert reports.confirm({"b1": Member("b1", 2**62)}) == []


def test_what_another_registration_has_overtaken_is_forgotten() -> None:
    """A view that shows a later registration shows all that there are."""
    reports = seen()
    reports.keep(Account("b1", 5), "over", 1, 0)
    reports.keep(Account("b1", 9), "ahead", 1, 0)

    assert reports.confirm({"b2": Member("b2", 7)}) == []
    assert reports.confirm({"b1": Member("b1", 9)}) == ["ahead"]


def test_one_registration_keeps_no_other_from_waiting() -> None:
    """Its oldest report gives way to its newest."""
    reports = seen()
    dropped = sum(len(reports.keep(REBORN, str(number), 1, 0)) for number in range(100))
    reports.keep(Account("b2", 8), "other", 1, 0)

    assert dropped == 100 - EARLY_OF_ONE_MAX
    members = {"b1": Member("b1", 9), "b2": Member("b2", 8)}
    assert reports.confirm(members) == ["96", "97", "98", "99", "other"]


@pytest.mark.parametrize("bytes_max", [EARLY_MAX * 10, 5])
def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch, bytes_max: int) -> None:
    """The number and the bytes have bounds; the oldest report gives way."""
    monkeypatch.setattr(early, "EARLY_BYTES_MAX", bytes_max)
    reports = seen()
    for number in range(1, 2 * EARLY_MAX):
        reports.keep(Account("b1", number), str(number), 1, 0)

    assert len(reports) == min(EARLY_MAX, bytes_max)
    newest = 2 * EARLY_MAX - 1
    assert reports.confirm({"b1": Member("b1", newest)}) == [str(newest)]

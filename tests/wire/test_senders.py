"""ZooKeeper alone says which member sent a report, not the report itself."""

from __future__ import annotations

from contextlib import suppress

import pytest

from coordinator.core.model import NANOS_PER_MILLI, Member, UsageReport
from coordinator.core.reports.early import GRACE_NS
from coordinator.wire.fields import BadReport
from coordinator.wire.reports import encode
from coordinator.wire.senders import SEEN_MAX, UNCONFIRMED, Senders
from coordinator.wire.signature import Signer

ME, PEER, STRANGER = Signer(), Signer(), Signer()
MEMBERS = (Member("b1", 3, "", PEER.public_key), Member("me", 2, "", ME.public_key))


@pytest.fixture
def senders() -> Senders:
    """Of the sidecar `me`, which has sent one report, on two bus topics; b1 is the other member."""
    senders = Senders("me")
    senders.topics = 2
    assert senders.set_members(MEMBERS) == []
    senders.sent(2, 1, report("me", 2, 1))
    return senders


def report(broker: str = "b1", incarnation: int = 3, sequence: int = 7, elapsed: int = 9) -> bytes:
    """An empty report."""
    return encode(UsageReport(broker, incarnation, sequence, elapsed, ()))


def sent(sequence: int, at_ms: int) -> bytes:
    """A report of b1 that tells when it was sent."""
    return encode(UsageReport("b1", 3, sequence, 9, ()), at_ms)


def refused(senders: Senders, payload: bytes) -> str:
    """Why a payload is not believed."""
    with pytest.raises(BadReport) as raised:
        senders.open(payload, 0)
    return str(raised.value)


def test_a_member_is_believed_with_its_own_key(senders: Senders) -> None:
    """The reader gets the bytes that the member signed."""
    opened = senders.open(PEER.sign(report()), 0)

    assert opened == ("b1", report(), len(PEER.sign(report())))
    assert not senders.foreign


@pytest.mark.parametrize("signer", [STRANGER, ME, None])
def test_nobody_speaks_for_another_member(senders: Senders, signer: Signer | None) -> None:
    """A stranger cannot, nor a sidecar with its own key, nor a sender without a signature."""
    forged = report(sequence=8) if signer is None else signer.sign(report(sequence=8))

    assert refused(senders, forged).startswith("foreign: in the name of b1, ")
    assert senders.foreign == {"b1": 1}
    assert senders.open(PEER.sign(report(sequence=8)), 0) is not None


def test_a_number_that_no_registration_has_does_nothing(senders: Senders) -> None:
    """I am b1, incarnation 2^62, and take no part: the real one goes on counting."""
    forged = encode(UsageReport("b1", 2**62, 1, 1, (), leaving=True))
    for signer in (STRANGER, PEER):
        assert senders.open(signer.sign(forged), 0) is None
    for sequence in range(1, 50):
        assert senders.open(PEER.sign(report(sequence=sequence)), 0) is not None
    senders.expire(GRACE_NS + 1)

    assert senders.dropped() == [(UNCONFIRMED, 2)]
    assert senders.open(PEER.sign(report(sequence=50)), 0) is not None


def test_who_is_no_member_is_not_listened_to(senders: Senders) -> None:
    """Its name is not kept either."""
    assert refused(senders, STRANGER.sign(report("b9", 1))) == "no member: not registered"
    assert refused(senders, PEER.sign(report(incarnation=2))) == "old incarnation"
    assert not senders.foreign


def test_a_report_that_is_ahead_of_zookeeper_counts_once_its_key_is_known(
    senders: Senders,
) -> None:
    """The restarted broker's own; what a stranger said under the same registration is foreign."""
    reborn = Signer()
    assert senders.open(STRANGER.sign(report(incarnation=4, sequence=1)), 0) is None
    assert senders.open(reborn.sign(report(incarnation=4, sequence=1)), 0) is None

    found = senders.set_members((Member("b1", 4, "", reborn.public_key), MEMBERS[1]))
    assert [type(each).__name__ for each in found] == ["BadReport", "Opened"]
    assert senders.foreign == {"b1": 1}
    assert refused(senders, PEER.sign(report(sequence=99))) == "old incarnation"


def test_copies_are_neither_news_nor_dropped_and_replays_are(senders: Senders) -> None:
    """Each topic brings a report once; further copies come from a stranger."""
    payload = PEER.sign(report())
    assert senders.open(payload, 0) is not None
    assert senders.open(PEER.sign(report(sequence=8)), 0) is not None
    assert senders.open(payload, 0) is None
    assert refused(senders, payload) == "sent again"
    assert not senders.foreign


def test_a_copy_is_not_checked_again(senders: Senders, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs a hash."""
    payload = PEER.sign(report())
    assert senders.open(payload, 0) is not None
    monkeypatch.setattr("coordinator.wire.senders.is_signed_by", lambda *_: pytest.fail("checked"))

    assert senders.open(payload, 0) is None


def test_two_reports_under_one_number_are_foreign(senders: Senders) -> None:
    """The second one reveals a stolen key."""
    assert senders.open(PEER.sign(report()), 0) is not None

    assert "two reports under one number" in refused(senders, PEER.sign(report(elapsed=1)))
    assert senders.foreign == {"b1": 1}


def test_the_own_name_from_elsewhere_is_foreign(senders: Senders) -> None:
    """Such a report was not sent here, whether its registration is this one or a later one."""
    for number, forged in enumerate((report("me", 2, 2), report("me", 2, 1, elapsed=1)), 1):
        assert refused(senders, ME.sign(forged)).startswith("foreign: in the name of me")
        assert senders.foreign == {"me": number}
    assert senders.open(STRANGER.sign(report("me", 2**62)), 0) is None
    senders.expire(GRACE_NS + 1)
    assert senders.dropped() == [(UNCONFIRMED, 1)]


def test_the_own_report_comes_back_once_and_has_copies(senders: Senders) -> None:
    """It is handed on once, for the recorder."""
    payload = ME.sign(report("me", 2, 1))

    assert senders.open(payload, 0) is not None
    assert senders.open(payload, 0) is None
    assert refused(senders, payload) == "sent again"


def test_what_an_earlier_process_of_this_broker_said_is_old(senders: Senders) -> None:
    """It is no forgery, before and after this one's first report."""
    assert refused(senders, STRANGER.sign(report("me", 1))) == "old incarnation"
    newborn = Senders("me")
    newborn.set_members(MEMBERS)
    assert refused(newborn, STRANGER.sign(report("me", 2))) == "old incarnation"
    assert not senders.foreign + newborn.foreign


def test_a_namesake_is_named(senders: Senders) -> None:
    """Another sidecar that was given this broker's id, and has registered with it."""
    namesake = Signer()
    assert senders.open(namesake.sign(report("me", 5)), 0) is None
    found = senders.set_members((MEMBERS[0], Member("me", 5, "", namesake.public_key)))

    assert [str(each) for each in found] == [
        "foreign: in the name of me, another sidecar is registered under this broker_id"
    ]
    assert senders.foreign == {"me": 1}


def test_what_is_kept_of_a_sender_is_bounded(senders: Senders) -> None:
    """An old report whose number is forgotten is late."""
    payloads = [PEER.sign(report(sequence=number)) for number in range(1, SEEN_MAX + 2)]
    for payload in payloads:
        assert senders.open(payload, 0) is not None

    assert refused(senders, payloads[0]) == "late"
    assert senders.open(payloads[1], 0) is None


def test_whatever_bytes_come_the_answer_is_a_reason(senders: Senders) -> None:
    """No other exception, and nothing is believed."""
    genuine = PEER.sign(report())
    believed = []
    for place in range(len(genuine)):
        changed = genuine[:place] + bytes([genuine[place] ^ 0xFF]) + genuine[place + 1 :]
        for payload in (changed, genuine[:place]):
            with suppress(BadReport):
                believed.append(senders.open(payload, 0))

    assert set(believed) <= {None}  # what waits for a registration that never comes


def test_a_report_that_was_sent_too_long_ago_is_dropped(senders: Senders) -> None:
    """By a time that is signed; one that tells no time is taken."""
    senders.age_max_ms = 1_000
    for sequence, delay_ms in ((1, 20), (2, 10), (3, 1_010)):
        payload = PEER.sign(sent(sequence, at_ms=5_000 + sequence))
        assert senders.open(payload, (90_000 + sequence + delay_ms) * NANOS_PER_MILLI) is not None
    late = PEER.sign(sent(4, at_ms=5_004))
    with pytest.raises(BadReport, match="too old: b1 sent it 1001 ms before it came"):
        senders.open(late, 91_015 * NANOS_PER_MILLI)
    assert senders.open(PEER.sign(report(sequence=5)), 99_000 * NANOS_PER_MILLI) is not None
    assert not senders.foreign


def test_no_other_process_makes_a_members_reports_look_old(senders: Senders) -> None:
    """A forged report that seems quick counts for nothing, nor does a copy."""
    senders.age_max_ms = 1_000
    first = PEER.sign(sent(1, at_ms=5_000))
    assert senders.open(first, 90_000 * NANOS_PER_MILLI) is not None
    refused(senders, STRANGER.sign(sent(2, at_ms=2**62)))
    assert senders.open(first, 60_000 * NANOS_PER_MILLI) is None
    assert senders.open(PEER.sign(sent(2, at_ms=6_000)), 91_900 * NANOS_PER_MILLI) is not None

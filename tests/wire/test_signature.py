"""The signature of a report: only its owner can have written it, and all of it."""

from __future__ import annotations

import pytest

from coordinator.core.model import UsageReport
from coordinator.wire import reports
from coordinator.wire.fields import BadReport
from coordinator.wire.signature import Signed, Signer, is_signed_by, split_signature

REPORT = reports.encode(UsageReport("b1", 3, 7, 1_000_000_000, (), complete=True))
OWNER, OTHER = Signer(), Signer()


def is_right(payload: bytes, key: bytes = OWNER.public_key) -> bool:
    """Whether a payload is a report that the owner of a key has signed."""
    try:
        return is_signed_by(key, split_signature(payload))
    except BadReport:
        return False


def test_what_its_owner_signed_is_believed_and_nobody_elses() -> None:
    """The reader gets the signed bytes."""
    payload = OWNER.sign(REPORT)

    assert split_signature(payload).report == REPORT
    assert is_right(payload)
    assert not is_right(payload, OTHER.public_key)
    assert len(payload) == len(REPORT) + 71


def test_every_changed_bit_is_noticed() -> None:
    """In the signature, in the length and in the report."""
    payload = OWNER.sign(REPORT)
    for place in range(len(payload) * 8):
        changed = bytearray(payload)
        changed[place // 8] ^= 1 << place % 8
        assert not is_right(bytes(changed))


@pytest.mark.parametrize("rest", [b"\x00", b"\xa2\x06\x00", b"x" * 43, REPORT])
def test_no_byte_that_is_read_is_unsigned(rest: bytes) -> None:
    """Bytes behind a report make it unreadable, and so does a cut."""
    payload = OWNER.sign(REPORT)
    for changed in (payload + rest, payload[:-1]):
        with pytest.raises(BadReport, match=r"^signature tells another length"):
            split_signature(changed)


def test_pulsar_reads_what_is_signed() -> None:
    """It skips a field that it does not know."""
    assert reports.decode(OWNER.sign(REPORT), {}) == reports.decode(REPORT, {})


def test_what_is_not_signed_is_nobodys() -> None:
    """No key verifies it; an invalid key signs nothing either."""
    assert split_signature(REPORT) == Signed(REPORT, None)
    assert not is_right(REPORT)
    for key in (b"", b"short", bytes(32), b"\xff" * 32):
        assert not is_right(OWNER.sign(REPORT), key)


def test_a_signature_of_anything_else_is_none_of_a_report() -> None:
    """The same key over the bare report."""
    bare = OWNER._key.sign(REPORT)

    assert not is_signed_by(OWNER.public_key, Signed(REPORT, bare))


def test_a_head_says_whose_report_it_is() -> None:
    """The head alone is read for that."""
    assert reports.head_of(REPORT) == ("b1", 3, 7, 0)
    for payload in (b"", b"garbage", b"\x0a\x02b1"):
        with pytest.raises(BadReport):
            reports.head_of(payload)

"""The seal of a report: only who shares the key is believed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator.core.model import UsageReport
from coordinator.wire import reports
from coordinator.wire.fields import BadReport
from coordinator.wire.seal import Seal

OLD, NEW = b"old secret of the bus", b"new secret of the bus"
PAYLOAD = reports.encode(UsageReport("b1", 3, 7, 1_000_000_000, (), complete=True))


def test_who_shares_the_key_is_believed() -> None:
    """The report inside is unchanged."""
    sealed = Seal([OLD]).close(PAYLOAD)

    Seal([OLD]).check(sealed)

    assert reports.decode(sealed, {}) == reports.decode(PAYLOAD, {})
    assert len(sealed) == len(PAYLOAD) + 43


def test_a_reader_without_keys_takes_sealed_reports_for_what_they_are() -> None:
    """Sidecars get their keys one by one."""
    Seal().check(Seal([OLD]).close(PAYLOAD))
    Seal().check(PAYLOAD)

    assert Seal().close(PAYLOAD) == PAYLOAD


def test_every_changed_bit_is_noticed() -> None:
    """In the report, in the key's name and in the code itself."""
    sealed = Seal([OLD]).close(PAYLOAD)
    reader = Seal([OLD])
    for place in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(BadReport):
            reader.check(bytes(changed))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (PAYLOAD, "not sealed"),
        (b"", "not sealed"),
        (Seal([NEW]).close(PAYLOAD), "sealed with an unknown key"),
        (PAYLOAD + Seal([OLD]).close(b"x" * 9)[9:], "the seal does not fit"),
        (Seal([OLD]).close(PAYLOAD)[:-1], "not sealed"),
    ],
)
def test_what_is_not_believed_says_why(payload: bytes, reason: str) -> None:
    """The reason is what such reports are counted by."""
    with pytest.raises(BadReport, match=f"^{reason}:"):
        Seal([OLD]).check(payload)


def test_keys_change_without_a_gap() -> None:
    """Step by step, with sidecars of two neighbouring steps side by side."""
    steps = [Seal([OLD]), Seal([OLD, NEW]), Seal([NEW, OLD]), Seal([NEW])]
    for before, after in pairwise(steps):
        before.check(after.close(PAYLOAD))
        after.check(before.close(PAYLOAD))
    with pytest.raises(BadReport):
        steps[-1].check(steps[0].close(PAYLOAD))


def test_keys_are_introduced_without_a_gap() -> None:
    """While some sidecars have none yet, what is not sealed is believed if that is asked for."""
    introducing = Seal([OLD], accept_unsealed=True)

    introducing.check(PAYLOAD)
    Seal().check(introducing.close(PAYLOAD))
    with pytest.raises(BadReport, match="does not fit"):
        introducing.check(PAYLOAD + Seal([OLD]).close(b"")[:-1] + b"x")


def test_a_key_that_is_no_secret_is_refused() -> None:
    """Fifteen bytes can be too few to guess one by one; sixteen are not."""
    with pytest.raises(ValueError, match="at least 16 bytes, found 15"):
        Seal([b"x" * 15])

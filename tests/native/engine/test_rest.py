"""Entries that are more than the record has room for."""

from coordinator.native.engine.rest import scale


def test_entries_beyond_the_record_share_it() -> None:
    """Of each passes what the record has room for; with room left, all of it."""
    assert scale(600, 900, 1) == 666
    assert scale(600, 9_000, 10) == 666
    assert scale(600, 600, 1) == scale(600, 0, 1) == scale(None, 900, 1) == 1_000

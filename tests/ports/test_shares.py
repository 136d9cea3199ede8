"""A tenant's admins use a tenth of what all share, and a trail drops their entries before others'."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coordinator.ports import share_of, surplus


def test_a_share_is_a_tenth() -> None:
    """Of a small bound nothing is left for a tenant's admins, and super-users have all of it."""
    assert [share_of(bound) for bound in (10_000, 64, 10, 9)] == [1_000, 6, 1, 0]


def test_a_trail_keeps_the_newest_of_each() -> None:
    """Ten of super-users, one of each tenant; places to drop come newest first."""
    tenants = ["", "shop", *[""] * 10, "bank", "shop", "shop"]
    assert surplus(tenants, 10) == [13, 1, 0]


@given(st.lists(st.sampled_from(["", "shop", "bank"]), max_size=80), st.integers(10, 40))
def test_no_tenant_pushes_out_another_authors_entries(tenants: list[str], keep: int) -> None:
    """Of each author stays what would stay without the others."""
    dropped = surplus(tenants, keep)
    kept = Counter(each for place, each in enumerate(tenants) if place not in set(dropped))
    for author, made in Counter(tenants).items():
        assert kept[author] == min(made, share_of(keep) if author else keep)
    assert dropped == sorted(dropped, reverse=True)

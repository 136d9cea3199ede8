"""The messages and rows that a sidecar reads from shards, as benchmarks/shards.py counts them."""

from __future__ import annotations

from benchmarks.shards import (
    BROKERS,
    BROKERS_PER_GROUP,
    EACH,
    GROUPS,
    SUBJECT,
    Read,
    count_read,
    names_of,
    placements,
)


def test_from_one_topic_a_sidecar_reads_a_report_of_each_other_broker() -> None:
    """With all of its rows, whatever the placement."""
    for placement in placements(BROKERS, GROUPS).values():
        rows = GROUPS * BROKERS_PER_GROUP - len(placement[SUBJECT])
        assert count_read(placement, names_of(GROUPS), 1) == Read(BROKERS - 1, rows)


def test_with_a_topic_for_each_group_a_sidecar_reads_of_its_own_groups_alone() -> None:
    """Each of them has four other brokers, which send one row in each report."""
    placement = placements(BROKERS, GROUPS)["packed"]
    names = [str(number) for number in range(GROUPS)]
    read = count_read(placement, names, 2**32)
    assert read == Read(EACH * (BROKERS_PER_GROUP - 1), EACH * (BROKERS_PER_GROUP - 1))

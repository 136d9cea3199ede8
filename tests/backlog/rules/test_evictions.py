"""Evictions of the sidecar and of the broker are counted once each, and no count ever falls."""

from __future__ import annotations

import pytest

from coordinator.backlog.rules import evictions, namespaces
from coordinator.backlog.rules.evictions import EvictionCounts
from coordinator.backlog.rules.model import QuotaType

TOPIC, OTHER = "persistent://shop/orders/incoming", "persistent://shop/orders/other"
SIZE, TIME = QuotaType.SIZE, QuotaType.TIME


def test_the_first_reading_is_where_counting_begins() -> None:
    """Evictions before this sidecar ran are no news; those of a topic that was loaded later are."""
    counts = EvictionCounts()
    counts.read({(TOPIC, SIZE): 5})
    assert not counts.topics
    counts.read({(TOPIC, SIZE): 7, (OTHER, TIME): 1})
    assert counts.topics == {(TOPIC, SIZE): 2, (OTHER, TIME): 1}
    assert counts.namespaces == {("shop/orders", SIZE): 2, ("shop/orders", TIME): 1}
    assert counts.broker == {SIZE: 2, TIME: 1}


def test_no_count_falls_when_the_broker_unloads_a_topic() -> None:
    """The broker's counter is gone, and begins again at 0."""
    counts = EvictionCounts()
    counts.read({})
    for reading in ({(TOPIC, SIZE): 3}, {}, {(TOPIC, SIZE): 1}, {(TOPIC, SIZE): 1}):
        counts.read(reading)
    assert counts.topics == {(TOPIC, SIZE): 4}
    counts.read({(TOPIC, SIZE): 0})
    counts.read({(TOPIC, SIZE): 2})
    assert counts.topics == {(TOPIC, SIZE): 6}


def test_both_kinds_of_evictions_add_up() -> None:
    """The sidecar's own count at once."""
    counts = EvictionCounts()
    counts.read({(TOPIC, SIZE): 1})
    counts.add(TOPIC, SIZE)
    counts.read({(TOPIC, SIZE): 2})
    assert counts.topics == {(TOPIC, SIZE): 2}


def test_a_broker_that_tells_no_topics_apart_counts_by_namespace() -> None:
    """There is no topic to name."""
    counts = EvictionCounts()
    counts.read({})
    counts.read({("shop/orders", TIME): 2})
    assert not counts.topics
    assert counts.namespaces == {("shop/orders", TIME): 2}
    assert counts.broker == {TIME: 2}


def test_topics_are_bounded_and_sums_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic that was evicted longest ago loses its own count; namespace and broker keep it."""
    monkeypatch.setattr(evictions, "TOPICS_MAX", 3)
    counts = EvictionCounts()
    for number in (1, 2, 3, 1, 4):
        counts.add(f"{TOPIC}-{number}", SIZE)
    assert [topic[-1] for topic, _ in counts.topics] == ["3", "1", "4"]
    assert counts.namespaces["shop/orders", SIZE] == counts.broker[SIZE] == 5


def test_namespaces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All further ones count together."""
    monkeypatch.setattr(namespaces, "NAMESPACES_MAX", 1)
    counts = EvictionCounts()
    for name in ("one", "two", "three", "one"):
        counts.add(f"persistent://shop/{name}/t", SIZE)
    assert counts.namespaces == {
        ("shop/one", SIZE): 2,
        ("shop/two", SIZE): 1,
        (namespaces.OTHERS, SIZE): 1,
    }

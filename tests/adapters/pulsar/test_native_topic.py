"""Messages on the topic of entries become statements; those that are no reports of usage are left out."""

from __future__ import annotations

import time

import pytest

from coordinator.adapters.pulsar.client.frames import Received
from coordinator.adapters.pulsar.native_messages import HAS_GATE, SIDECAR, STANDS_IN, encode
from coordinator.adapters.pulsar.native_topic import NativeTopic
from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.table import Statement

NOW_NS = 1_700_000_000_000_000_000


def test_statements_say_who_wrote_them_and_how_late_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the time at which they are handled: those that waited for the coordinator are old."""
    monkeypatch.setattr(time, "time_ns", lambda: NOW_NS)
    topic, heard = NativeTopic("pulsar://b:6650", "a"), list[Statement]()
    topic.watch(heard.append)
    payload = encode("pulsar://b:1", {"g": Amounts(1)})
    early_ms = NOW_NS // 1_000_000 - 250
    for properties in ({SIDECAR: "b", HAS_GATE: "true"}, {SIDECAR: "b", STANDS_IN: "true"}, {}):
        topic._arrived(Received("p", early_ms, properties, payload))
    topic._arrived(Received("p", early_ms, {}, b"\xff"))
    assert [(said.sidecar, said.has_gate, said.stands_in) for said in heard] == [
        ("b", True, False), ("b", False, True), ("", False, False),
    ]  # fmt: skip
    assert {said.skew_ns for said in heard} == {250_000_000}

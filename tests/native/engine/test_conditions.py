"""Each thing in the way is said, with what to do about it."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.conditions import TRANSPORT, Observed, conditions
from coordinator.native.engine.outside import BrokerFacts, TopicHealth
from coordinator.native.engine.table import Stranger

S = NANOS_PER_SECOND
URL = "pulsar://a:6650"
OLD = BrokerFacts(URL, 1, TRANSPORT, version="4.0.7")


def well(**seen: object) -> Observed:
    """Nothing is the case, but for what is given."""
    facts = {
        "facts": BrokerFacts(URL, 1, TRANSPORT),
        "health": TopicHealth(connected=True, reason="", written=1, failed=0),
        "steered_since_ns": 0,
        "spoke_ns": 100 * S,
    }
    return Observed(**(facts | seen))  # type: ignore[arg-type]


def test_nothing_is_said_when_all_is_well() -> None:
    """The broker reports."""
    assert list(conditions(well(), 101 * S)) == []
    facts = BrokerFacts(URL, 1, TRANSPORT, version="4.2.4")
    assert list(conditions(well(remotes=("west",), facts=facts), 101 * S)) == []


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("transport", {"facts": BrokerFacts(URL, 1, "")}),
        ("interval", {"facts": BrokerFacts(URL, 60, TRANSPORT)}),
        ("silent", {"spoke_ns": None}),
        ("silent", {"spoke_ns": 80 * S}),
        ("clock", {"skew_ns": 3 * S}),
        ("clock", {"skew_ns": -3 * S}),
        ("topic", {"health": TopicHealth(False, "AuthorizationError", 0, 0)}),
        ("admin", {"admin_error": "401"}),
        ("counters", {"counters_error": "403"}),
        ("counters", {"replication_error": "500"}),
        ("stranger", {"strangers": (Stranger(URL, "evil-1", 0),)}),
        ("unsteered", {"unsteered": ("pulsar://b:6650",)}),
        ("forgotten", {"forgotten": ("g",)}),
        ("overflow", {"overflowing": ("t/n",)}),
        ("edited", {"edited": {"g": 99 * S}}),
        ("foreign", {"foreign": {"t/n": "theirs"}}),
        ("uncounted", {"uncounted": ("t/n",)}),
        ("rates", {"dispatch_error": "401"}),
        ("rates", {"topic_limits_error": "401"}),
        ("topics", {"limits_dispatch": True, "lists_topics": False}),
        ("policies", {"limits_dispatch": True, "facts": BrokerFacts(URL, 1, TRANSPORT, False)}),
        ("replication", {"remotes": ("west",)}),
        ("replication", {"remotes": ("west",), "facts": OLD}),
        ("strict", {"strict": ("g",)}),
        ("not-native", {"cannot": ("dispatch of g",)}),
    ],
)
def test_what_is_the_case_is_named(code: str, seen: dict[str, object]) -> None:
    """Each condition is named once, with the fault and the remedy."""
    (found,) = conditions(well(**seen), 101 * S)
    assert found.code == code
    assert len(found.text) > 20
    assert len(found.fix) > 10


def test_an_idle_broker_at_its_start_is_not_silent_yet() -> None:
    """It has five intervals, and nothing is steered before."""
    assert list(conditions(well(spoke_ns=None, steered_since_ns=None), 500 * S)) == []
    assert list(conditions(well(spoke_ns=None, steered_since_ns=95 * S), 101 * S)) == []


def test_edits_of_long_ago_are_forgotten() -> None:
    """Clients may edit one topic after the other for as long as a sidecar runs."""
    seen = Observed()
    assert seen.note_edited("t0", 0)
    assert not seen.note_edited("t0", S)
    for number in range(1, 10_000):
        assert seen.note_edited(f"t{number}", number * S)
    assert len(seen.edited) == 300
    assert seen.note_edited("t0", 10_000 * S)

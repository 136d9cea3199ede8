"""The report says who held the limits."""

from __future__ import annotations

from typing import Any

from spark_jobs.enforcement import demand_of, sentences


def row(broker: str, path: str, interval_s: int | None = None) -> dict[str, Any]:
    """A broker as it was recorded."""
    return {"broker": broker, "path": path, "interval_s": interval_s}


def test_gates_alone_need_no_words() -> None:
    """They are what the report is about unless it says otherwise; earlier releases recorded nothing."""
    assert sentences([row("broker-1", "gate")]) == sentences([]) == []
    assert demand_of([]) == demand_of([row("broker-1", "gate")]) == "at the gate"


def test_native_enforcement_names_the_holder_and_the_slack_of_its_interval() -> None:
    """A bucket of I/(I+1) seconds at each interval; demand is the counters'."""
    brokers = [row("broker-1", "native", 5), row("broker-2", "native", 5)]
    text = " ".join(sentences(brokers))

    assert text.startswith("broker-1, broker-2: the brokers' own limiters hold the limits")
    assert "no gate is in the data path" in text
    assert "takes up to 5 s, 0.83 s of a limit may pass at once" in text
    assert "gates hold" not in text
    assert demand_of(brokers) == "in the brokers' counters"


def test_an_interval_that_no_broker_told_has_no_slack_in_figures() -> None:
    """Nothing is made up."""
    assert not [text for text in sentences([row("broker-1", "native")]) if "Slack" in text]


def test_brokers_of_several_kinds_are_told_apart() -> None:
    """Gates beside them, and brokers' own limiters behind gates."""
    brokers = [
        row("broker-1", "native", 1),
        row("broker-2", "native", 2),
        row("broker-3", "gate+native", 1),
        row("broker-4", "gate"),
    ]
    text = sentences(brokers)

    assert "at their interval of 1 s (broker-1): a change" in text[1]
    assert "at their interval of 2 s (broker-2): a change" in text[2]
    assert text[-2].startswith("broker-3: gates hold the limits; the brokers' own limiters")
    assert text[-1] == "broker-4: gates hold the limits."
    assert demand_of(brokers) == "at the gate, or in the brokers' counters"


def test_many_brokers_are_counted() -> None:
    """Eight are named."""
    (first, *_) = sentences([row(f"broker-{n:02}", "native") for n in range(11)])
    assert "broker-07 and 3 more: the brokers' own" in first

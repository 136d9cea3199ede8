"""Requests under way: which one an answer is for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.gate.engine.outstanding import REQUESTS_MAX, OutstandingRequests
from coordinator.gate.protocol.frames import FrameFault, MalformedFrame

Requests = OutstandingRequests[str]


@pytest.fixture
def requests() -> Requests:
    """Nothing is under way."""
    return OutstandingRequests()


@pytest.fixture
def both(requests: Requests) -> Requests:
    """Request 7 is under way, and so is the lookup service's request 7."""
    requests.open(7, "request")
    requests.open_lookup(7)
    return requests


@pytest.mark.parametrize("answer", [Requests.succeeded, Requests.failed])
def test_an_answer_ends_its_request(
    requests: Requests, answer: Callable[[Requests, int], str | None]
) -> None:
    """A second answer counts for nothing, and the id is free again."""
    requests.open(7, "first")

    assert answer(requests, 7) == "first"
    assert answer(requests, 7) is None
    requests.open(7, "second")
    assert answer(requests, 7) == "second"


@pytest.mark.parametrize("answer", [Requests.succeeded, Requests.failed, Requests.lookup_succeeded])
def test_an_answer_without_a_request_changes_no_request(
    requests: Requests, answer: Callable[[Requests, int], str | None]
) -> None:
    """The requests that are under way stay so."""
    requests.open(7, "request")
    requests.open_lookup(8)

    assert answer(requests, 9) is None
    assert len(requests) == 2


def test_an_id_that_is_under_way_is_taken(both: Requests) -> None:
    """Otherwise the answer to one could be taken for the answer to the other."""
    with pytest.raises(MalformedFrame) as of_request:
        both.open(7, "another")
    with pytest.raises(MalformedFrame) as of_lookup:
        both.open_lookup(7)

    assert of_request.value.fault is FrameFault.REQUEST_IN_USE
    assert of_lookup.value.fault is FrameFault.REQUEST_IN_USE
    assert both.succeeded(7) == "request"


def test_the_lookup_service_counts_its_requests_apart(both: Requests) -> None:
    """C++ clients begin both at 0; an answer of a kind of its own tells whose it is."""
    assert both.lookup_succeeded(7) is None
    both.open_lookup(7)
    assert both.succeeded(7) == "request"
    assert len(both) == 1


@pytest.mark.parametrize(
    "then",
    [Requests.succeeded, Requests.lookup_succeeded, Requests.failed],
    ids=["the lookup failed", "the request failed", "both failed"],
)
def test_an_error_to_two_requests_waits_for_the_other_answer(
    both: Requests, then: Callable[[Requests, int], str | None]
) -> None:
    """The other answer tells whose it was."""
    assert both.failed(7) is None

    assert then(both, 7) == "request"
    assert len(both) == 0


def test_an_error_is_the_lookups_if_nothing_else_is_under_way(requests: Requests) -> None:
    """Its id is free again."""
    requests.open_lookup(7)

    assert requests.failed(7) is None
    assert len(requests) == 0


@pytest.mark.parametrize(
    "ask",
    [lambda requests, number: requests.open(number, "request"), Requests.open_lookup],
    ids=["requests", "lookups"],
)
def test_a_bounded_number_of_requests_may_be_under_way(
    requests: Requests, ask: Callable[[Requests, int], None]
) -> None:
    """A client that has more is told to leave; one answer makes room for one request."""
    for number in range(REQUESTS_MAX):
        ask(requests, number)

    with pytest.raises(MalformedFrame) as raised:
        ask(requests, REQUESTS_MAX)

    assert raised.value.fault is FrameFault.REQUESTS
    requests.failed(3)
    ask(requests, REQUESTS_MAX)
    assert len(requests) == REQUESTS_MAX


@given(
    st.lists(
        st.tuples(st.sampled_from(["ask", "look up", "answer", "look-up answer"]), st.booleans()),
        max_size=40,
    )
)
def test_every_request_that_is_answered_is_told_how_it_went(steps: list[tuple[str, bool]]) -> None:
    """In any order of answers, as many requests succeed as the broker said.

    No client uses an id again while an ERROR to it is ambiguous: its ids only grow.
    """
    requests: Requests = OutstandingRequests()
    request = lookup = ambiguous = False
    asked = succeeded = failed = 0
    told: list[tuple[str, bool]] = []
    steps = [*steps, ("answer", True), ("look-up answer", True)]
    for step, positive in steps:
        if step == "ask" and not request and not ambiguous:
            requests.open(1, str(asked))
            asked, request = asked + 1, True
        elif step == "look up" and not lookup and not ambiguous:
            requests.open_lookup(1)
            lookup = True
        elif step == "answer" and request:
            request, ambiguous = False, lookup and not positive
            succeeded, failed = succeeded + positive, failed + (not positive)
            answered = requests.succeeded(1) if positive else requests.failed(1)
            told += [(answered, positive)] if answered is not None else []
        elif step == "look-up answer" and lookup:
            lookup, ambiguous = False, request and not positive
            answered = requests.lookup_succeeded(1) if positive else requests.failed(1)
            told += [(answered, False)] if answered is not None else []

    assert len(told) == asked == succeeded + failed
    assert sum(positive for _, positive in told) == succeeded
    assert len(requests) == 0

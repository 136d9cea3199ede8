"""Pulsar's own decoder reads every frame that the gate passes as the gate does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.decoder import attacks, corpus
from tests.decoder.cases import Case, repertoire
from tests.decoder.court import Court, differences, report

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def court() -> Iterator[Court]:
    """The decoders of two Pulsars."""
    with Court() as court:
        yield court


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "cases"),
    [
        (2026, 2_000),
        pytest.param(random.randrange(2**32), 50_000, marks=pytest.mark.verify, id="random"),
    ],
)
def test_mutated_frames_are_read_alike_or_refused(court: Court, seed: int, cases: int) -> None:
    """A sample of `make fuzz`: always the same, and in `make verify` another one each time."""
    ends = Counter[str]()
    for case, _ in differences(court, seed, range(cases), ends):
        pytest.fail(report(court, case, seed))
    assert ends["passed"] > cases // 20
    assert len(ends) > 10, "the mutations find many kinds of faults"


@pytest.mark.parametrize("case", tuple(attacks.cases()), ids=lambda case: case.name)
def test_a_known_attack_is_read_alike_or_refused(court: Court, case: Case) -> None:
    """A difference that was found once stays closed."""
    ((_, _, difference),) = court.hear([case])
    assert difference is None, difference


@pytest.mark.slow
def test_what_clients_send_passes(court: Court) -> None:
    """Each frame of the corpus, on a connection on which it makes sense."""
    known = repertoire()
    cases = [
        Case(f"CONNECT {n}", [sent.frame], opened=None) for n, sent in enumerate(known.connects)
    ]
    cases += [
        Case(f"frame {n}", [sent.frame], challenged=True, delayed=True)
        for n, sent in enumerate(known.others)
    ]
    ends = {case.name: (end, difference, case) for case, end, difference in court.hear(cases)}
    assert {name: end for name, end in ends.items() if end[0] != "passed"} == {}


def test_the_corpus_is_what_was_recorded() -> None:
    """Whole frames, of several clients, in both directions."""
    frames = corpus.load()
    assert len({each.client for each in frames}) >= 5
    assert {each.from_client for each in frames} == {True, False}
    assert all(len(each.frame) == 4 + int.from_bytes(each.frame[:4], "big") for each in frames)

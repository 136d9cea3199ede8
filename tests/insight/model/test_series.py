"""The recent past of a group: samples in step, bounded, with brokers that come and go."""

from __future__ import annotations

from coordinator.insight.model.series import SampleSeries


def test_a_broker_is_absent_before_it_came_and_after_it_went() -> None:
    """Absence is not a rate of 0."""
    series = SampleSeries()
    series.add(1, 100, {"a": (10, 50)}, keep=10)
    series.add(2, 100, {"a": (11, 50), "b": (0, 50)}, keep=10)
    series.add(3, 200, {"b": (5, 200)}, keep=10)

    view = series.view()

    assert (view.first, view.times_ns, view.limits) == (0, (1, 2, 3), (100, 100, 200))
    assert view.admitted == {"a": (10, 11, None), "b": (None, 0, 5)}
    assert view.local_limits == {"a": (50, 50, None), "b": (None, 50, 200)}
    assert series.totals(2) == (11, 5)


def test_only_what_is_new_is_given_to_who_has_the_rest() -> None:
    """Samples are numbered from the first one on, also when older ones are gone."""
    series = SampleSeries()
    for at in range(20):
        series.add(at, 100, {"a": (at, 100)}, keep=8)

    view = series.view(after=17)

    assert (view.first, view.admitted) == (18, {"a": (18, 19)})
    assert series.view(after=19).times_ns == ()


def test_after_a_number_that_no_sample_has_all_are_returned() -> None:
    """The reader has it from an earlier process, and would wait for as long as that one ran."""
    series = SampleSeries()
    for time in range(3):
        series.add(time, 100, {"b1": (time, 50)}, keep=10)

    view = series.view(after=300)

    assert (view.first, view.times_ns) == (0, (0, 1, 2))


def test_the_past_is_bounded_and_forgets_who_is_not_in_it() -> None:
    """At most a quarter more than is to be kept."""
    series = SampleSeries()
    series.add(0, 100, {"gone": (1, 1)}, keep=8)
    for at in range(1, 50):
        series.add(at, 100, {"a": (at, 100)}, keep=8)

    view = series.view()

    assert 8 <= len(view.times_ns) <= 10
    assert set(view.admitted) == {"a"}
    assert view.times_ns[-1] == 49


def test_a_series_without_brokers_has_totals_of_nothing() -> None:
    """One zero a sample."""
    series = SampleSeries()
    series.add(0, 100, {}, keep=8)
    series.add(1, 100, {}, keep=8)

    assert series.totals(60) == (0, 0)

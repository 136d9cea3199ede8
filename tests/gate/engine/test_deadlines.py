"""Each sweep checks the deadlines of connections."""

from __future__ import annotations

from coordinator.gate.engine.deadlines import Awaited, Deadlines


def swept(deadlines: Deadlines[str], sweeps: int) -> Deadlines[str]:
    """The deadlines after this number of sweeps."""
    for _ in range(sweeps):
        deadlines.sweep()
    return deadlines


def test_a_wait_is_over_after_whole_sweeps_and_once() -> None:
    """The sweep that follows its beginning at once does not count."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.begin(Awaited.CONNECT, "a")

    assert swept(deadlines, 3).take_over(Awaited.CONNECT, 3) == ()
    assert swept(deadlines, 1).take_over(Awaited.CONNECT, 3) == ("a",)
    assert swept(deadlines, 9).take_over(Awaited.CONNECT, 3) == ()


def test_waits_end_in_the_order_in_which_they_began() -> None:
    """One that begins anew is the youngest; what is waited for otherwise is another matter."""
    deadlines: Deadlines[str] = Deadlines()
    for name in ("a", "b", "c"):
        deadlines.begin(Awaited.END, name)
        deadlines.sweep()
    deadlines.begin(Awaited.END, "a")
    deadlines.begin(Awaited.CLIENT_READS, "b")

    assert swept(deadlines, 2).take_over(Awaited.END, 2) == ("b", "c")
    assert swept(deadlines, 1).take_over(Awaited.END, 2) == ("a",)
    assert list(deadlines.waiting(Awaited.CLIENT_READS)) == ["b"]


def test_what_was_done_in_time_is_waited_for_no_longer() -> None:
    """One kind of wait at a time, or all of a connection that is over."""
    deadlines: Deadlines[str] = Deadlines()
    for awaited in Awaited:
        deadlines.begin(awaited, "a")
        deadlines.begin(awaited, "b")
    deadlines.end(Awaited.END, "a")
    deadlines.end(Awaited.END, "unknown")
    deadlines.forget("b")

    over = {awaited: swept(deadlines, 2).take_over(awaited, 1) for awaited in Awaited}

    assert over.pop(Awaited.END) == ()
    assert set(over.values()) == {("a",)}


def test_a_shorter_wait_can_be_asked_for_at_any_time() -> None:
    """The gate asks for one when memory is scarce."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.begin(Awaited.CLIENT_READS, "old")
    swept(deadlines, 10).begin(Awaited.CLIENT_READS, "young")

    assert swept(deadlines, 2).take_over(Awaited.CLIENT_READS, 60) == ()
    assert deadlines.take_over(Awaited.CLIENT_READS, 5) == ("old",)

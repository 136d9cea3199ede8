"""The checker finds a footprint that grows, but not one that a mishap raises for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deploy.chaos.checker import footprint
from deploy.chaos.checker.history import Mishap
from tests.chaos.scenes import footprints, history, mishap

MIB = 1024 * 1024
FLAT = [100 * MIB] * 240


def found(memory: Sequence[int], *, mishaps: Sequence[Mishap] = ()) -> list[str]:
    """Return the findings about one process with this memory, second by second."""
    run = history(taken=footprints(memory), mishaps=mishaps)
    return [finding.text for finding in footprint.check(run)]


def test_a_flat_process_is_fine_also_if_it_grew_up_first() -> None:
    """Its first seconds are its start."""
    assert found(FLAT) == []
    assert found([60 * MIB] * 15 + FLAT) == []


def test_memory_that_grows_is_found() -> None:
    """Half a megabyte a second."""
    (text,) = found([100 * MIB + at_s * 500_000 for at_s in range(240)])
    assert "bytes of memory" in text


def test_descriptors_threads_and_tasks_that_grow_are_found() -> None:
    """One in ten seconds."""
    samples = footprints(FLAT)
    more = [replace(s, descriptors=40 + n // 10) for n, s in enumerate(samples)]
    busier = [replace(s, threads=20 + n // 10) for n, s in enumerate(samples)]
    longer = [replace(s, tasks=30 + n // 10) for n, s in enumerate(samples)]

    for taken, what in ((more, "file descriptors"), (busier, "threads"), (longer, "tasks")):
        (finding,) = footprint.check(history(taken=taken))
        assert what in finding.text


def test_what_a_process_gives_back_hides_no_leak_of_another() -> None:
    """Together they stay flat."""
    growing = [100 * MIB + at_s * 500_000 for at_s in range(240)]
    shrinking = [300 * MIB - at_s * 500_000 for at_s in range(240)]
    taken = [*footprints(growing, pid=78), *footprints(shrinking)]

    (finding,) = footprint.check(history(taken=taken))
    assert "process 78" in finding.text


def test_what_a_mishap_takes_is_no_leak() -> None:
    """The last minute with twice the memory, all of it during a mishap."""
    taken = list(FLAT)
    taken[180:] = [200 * MIB] * 60
    assert found(taken, mishaps=[mishap(180.0, 240.0)]) == []
    assert found(taken) != []


def test_a_process_of_a_minute_is_not_judged() -> None:
    """It has hardly begun."""
    samples = footprints([100 * MIB + at_s * MIB for at_s in range(60)])
    assert footprint.judged(history(taken=samples)) == {}


def test_a_process_that_lived_for_long_is_held_closer() -> None:
    """22 kB a second for an hour, once its caches are full."""
    filled = [100 * MIB + min(at_s, 600) * 50_000 for at_s in range(3_600)]
    growing = [size + at_s * 22_000 for at_s, size in enumerate(filled)]
    (text,) = found(growing)

    assert "bytes of memory" in text
    assert found(filled) == []


def test_a_run_without_long_lived_processes_shows_nothing_about_leaks() -> None:
    """No process lived for two minutes of it."""
    (finding,) = footprint.check(replace(history(), ended_s=3_600.0))

    assert "nothing is shown" in finding.text

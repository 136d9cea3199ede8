"""Work that is done in the background while a context is entered."""

from __future__ import annotations

import threading

import pytest

from deploy.background import Background


class Pair(Background):
    """Two threads that leave their names when they end: told to, or, the first, let go before."""

    def __init__(self) -> None:
        super().__init__({"first": self._first, "second": self._second})
        self.let_go = threading.Event()
        self.ended: set[str] = set()

    def _first(self) -> None:
        while not (self._stop.is_set() or self.let_go.wait(0.01)):
            pass
        self.ended.add(threading.current_thread().name)

    def _second(self) -> None:
        self._stop.wait()
        self.ended.add(threading.current_thread().name)


def test_the_work_lasts_as_long_as_the_context() -> None:
    """Nothing begins before it is entered, and all has ended when it is left."""
    pair = Pair()
    alive = [pair.alive]
    with pair as entered:
        assert entered is pair
        assert pair.ended == set()
        alive.append(pair.alive)
    alive.append(pair.alive)

    assert alive == [False, True, False]
    assert pair.ended == {"first", "second"}


def test_an_error_inside_the_context_ends_the_work_too() -> None:
    """The caller gets the error."""
    pair = Pair()
    with pytest.raises(KeyError), pair:
        raise KeyError

    assert pair.ended == {"first", "second"}


def test_it_is_alive_only_while_every_thread_is() -> None:
    """A user of all threads' data learns that one has ended."""
    pair = Pair()
    with pair:
        pair.let_go.set()
        pair._threads[0].join()

        assert not pair.alive

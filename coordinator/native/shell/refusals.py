"""The refusals of one step: what is refused of one owner keeps no other from its turn.

Clients and tenants choose names that brokers refuse, or that no request can hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coordinator.ports import Refused


class StepRefusals:
    """Notes what is refused during a step, to be raised at its end; make a new one for each step."""

    def __init__(self) -> None:
        self._first: Refused | ValueError | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Go on after this block if it is refused; any other error is raised."""
        try:
            yield
        except (Refused, ValueError) as error:
            self._first = self._first or error

    def raise_first(self) -> None:
        """Raise the first that was noted, if any.

        Raises:
            Refused, ValueError: it.
        """
        if self._first is not None:
            raise self._first

"""The certificates that a sidecar records, and their times.

Every sidecar's certificate is true, so one a second is enough for each group and dimension: the members
take turns (turns.py). A certificate's cost grows with the number of members, and it is made on the
coordinator's loop, in one go: beyond ``HOLDERS_PER_TURN`` only some groups are certified, and others the
next time.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.adapters.recorder.seconds import Second
from coordinator.adapters.recorder.turns import is_own_turn
from coordinator.core.certificate.statement import Certificate
from coordinator.core.model import DIMENSIONS_OF, Dimension, ResourceGroup
from coordinator.core.state import CoordinatorState

HOLDERS_PER_TURN = 1_000
"""The most brokers that certificates are made of at one moment: about two milliseconds."""


class Certificates:
    """Makes the certificates of one sidecar; see the module's head."""

    def __init__(self) -> None:
        self._next = 0

    def made_at(
        self, second: Second, state: CoordinatorState, now_ns: int
    ) -> Iterator[Certificate]:
        """Yield the certificates that are due at the end of a second."""
        if not is_own_turn(second, state):
            return
        places = list(_places(second, state))
        for _ in range(min(len(places), max(1, HOLDERS_PER_TURN // len(state.members)))):
            group, dimension = places[self._next % len(places)]
            self._next += 1
            yield state.certificate(group, dimension, now_ns)


def _places(second: Second, state: CoordinatorState) -> Iterator[tuple[ResourceGroup, Dimension]]:
    """Yield every limit of the groups that have traffic here."""
    for name, monitoring_class in sorted(second.counts, key=lambda key: (key[0], key[1].value)):
        group = (state.groups or {}).get(name)
        for dimension in DIMENSIONS_OF[monitoring_class]:
            if group is not None and group.limits.of(dimension) is not None:
                yield group, dimension

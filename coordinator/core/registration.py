"""This broker's registration in the membership: whether it exists, and when to ask for it.

The core asks for it once a round while ZooKeeper is connected, the definitions are known and the own
broker answers. A registration ends with its session, when this sidecar leaves, or when the membership has
shown it and shows it no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.model import Member


class Registration:
    """The registration of this broker. See the module's head.

    Args:
        broker: this broker's id.
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        #: None while it is not registered.
        self.incarnation: int | None = None
        #: Whether ZooKeeper is connected, and whether the own broker answers.
        self.connected = False
        self.answering = False
        #: Whether the membership has shown this incarnation.
        self.seen = False
        self._asked_round: int | None = None

    def joined(self, incarnation: int, members: Mapping[str, Member]) -> None:
        """Note that the store has registered it; the membership may have shown that already."""
        self.incarnation = incarnation
        self.seen = self._is_in(members)
        self._asked_round = None

    def look(self, members: Mapping[str, Member]) -> bool:
        """Look for it in the membership; return whether the membership has dropped it."""
        if not self._is_in(members):
            return self.seen
        self.seen = True
        return False

    def end(self) -> None:
        """End the registration."""
        self.incarnation = self._asked_round = None
        self.seen = False

    def ask(self, round_: int) -> bool:
        """Return whether to ask for it now; if it does not succeed, it is asked for again next round."""
        ready = self.connected and self.answering
        if not ready or self.incarnation is not None or self._asked_round == round_:
            return False
        self._asked_round = round_
        return True

    def _is_in(self, members: Mapping[str, Member]) -> bool:
        own = members.get(self._broker)
        return own is not None and own.incarnation == self.incarnation

"""This broker's place in the membership: whether it has one, and when to ask for it.

It is asked for once a round while ZooKeeper is connected, the definitions are known and the own broker
answers. A registration is over when the session is, when this sidecar leaves, or when the membership,
having shown it, shows it no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.model import Member


class Registration:
    """See the module's head.

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
        #: The membership has shown this incarnation.
        self.seen = False
        self._asked_round: int | None = None

    def joined(self, incarnation: int, members: Mapping[str, Member]) -> None:
        """The store has registered it; the membership may have shown that already."""
        self.incarnation = incarnation
        self.seen = self._is_in(members)
        self._asked_round = None

    def look(self, members: Mapping[str, Member]) -> bool:
        """Look for it in the membership; tell whether it is over, by somebody else's word."""
        if not self._is_in(members):
            return self.seen
        self.seen = True
        return False

    def end(self) -> None:
        """The registration is over."""
        self.incarnation = self._asked_round = None
        self.seen = False

    def ask(self, round_: int) -> bool:
        """Whether to ask for it now; asked again in another round if nothing comes of it."""
        ready = self.connected and self.answering
        if not ready or self.incarnation is not None or self._asked_round == round_:
            return False
        self._asked_round = round_
        return True

    def _is_in(self, members: Mapping[str, Member]) -> bool:
        own = members.get(self._broker)
        return own is not None and own.incarnation == self.incarnation

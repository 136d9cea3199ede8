"""Raises that wait: announced to the others, and in force once these have answered.

The half of the policy ``balanced`` that has a memory; policies.py says why it is safe. A raise is
announced as a *ceiling*, the limit that its broker may come to hold without another word.
Every report of a broker with raises lists them, so whoever says that it took a report knows the ceilings
in it. A ceiling that has grown is known from the report on that said so first; one that has shrunk is
known at once, since those who know more expect more.

Answers get lost as well. A raise worth hurrying for is announced again after 100 ms, 200 ms and so on,
up to once a round, and whoever takes part replies at once (answering.py); a small one goes with the
reports of the rounds. A peer that is heard but has answered nothing for ``hold_ns`` does not hear this
broker. It has noticed that long ago (``silence_rounds``), raises nothing before it has heard again, and
is not waited for: one broken link must not stop everybody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.core.model import DIMENSIONS_OF, Dimension, Key, Member, UsageReport
from coordinator.core.settings import CoreSettings

MAX_STEPS = 8
"""How many growing ceilings of one raise are told apart; a further one replaces the last."""


class _Step(NamedTuple):
    """Since this report of ours, every ceiling announced was at least so high."""

    sequence: int
    ceiling: int


@dataclass(slots=True)
class _Raise:
    """One limit on its way up."""

    wanted_ns: int
    ceiling: int
    #: The ceiling that was worth hurrying for last; before there was one, what was held.
    hurried: int
    #: When it is to be announced again at the latest; None leaves it to the rounds.
    again_ns: int | None = None
    gap_ns: int = 0
    #: Who knows least of it; while that is so, nobody else's answer changes anything.
    waits_for: str | None = None
    #: Both numbers of a step are larger than those of the step before.
    steps: list[_Step] = field(default_factory=list)

    def announced(self, sequence: int) -> None:
        """The ceiling was said in this report."""
        known: list[_Step] = []
        for step in self.steps:
            ceiling = min(step.ceiling, self.ceiling)
            if not known or ceiling > known[-1].ceiling:
                known.append(_Step(step.sequence, ceiling))
        if not known or self.ceiling > known[-1].ceiling:
            del known[MAX_STEPS - 1 :]
            known.append(_Step(sequence, self.ceiling))
        self.steps = known

    def known_since(self, sequence: int) -> int:
        """What somebody knows of who took this report of ours; 0 is nothing."""
        return max((step.ceiling for step in self.steps if step.sequence <= sequence), default=0)


class _Answer(NamedTuple):
    """The newest report of ours that a peer says it took."""

    incarnation: int
    sequence: int
    #: When it said so first.
    heard_ns: int


class Raises:
    """All raises of this broker that wait. See the module's head."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._raises: dict[tuple[str, Dimension], _Raise] = {}
        self._answers: dict[str, _Answer] = {}
        #: The earliest ``again_ns``.
        self._next_ns: int | None = None
        #: Where others count on a ceiling that is not wanted any more; they wait to hear of it.
        self._withdrawn: set[Key] = set()

    def restart(self) -> None:
        """A new incarnation has announced nothing, and nobody has answered it."""
        self._answers.clear()
        for raise_ in self._raises.values():
            raise_.steps.clear()

    def groups(self) -> set[str]:
        """The groups with a limit that waits."""
        return {group for group, _ in self._raises}

    def keys(self) -> set[Key]:
        """What the next report has to list."""
        waiting = {(group, dimension.monitoring_class) for group, dimension in self._raises}
        return waiting | self._withdrawn

    def ceilings(self, key: Key) -> tuple[int | None, int | None]:
        """What to announce for messages and bytes; None where nothing waits."""
        messages, bytes_ = DIMENSIONS_OF[key[1]]
        return self._ceiling(key[0], messages), self._ceiling(key[0], bytes_)

    def _ceiling(self, group: str, dimension: Dimension) -> int | None:
        raise_ = self._raises.get((group, dimension))
        return None if raise_ is None else raise_.ceiling

    def want(self, group: str, dimension: Dimension, held: int, ceiling: int, now_ns: int) -> None:
        """Something higher than what is held is wanted, up to the ceiling."""
        raise_ = self._raises.get((group, dimension))
        if raise_ is None:
            raise_ = self._raises[group, dimension] = _Raise(now_ns, ceiling, held)
        raise_.ceiling = ceiling
        # Room comes in small pieces, from many. A lower ceiling hurries, too: others wait for the room.
        if self._settings.moved(raise_.hurried, ceiling):
            raise_.hurried = ceiling
            raise_.again_ns, raise_.gap_ns = now_ns, 2 * self._settings.urgent_gap_ns
            self._next_ns = now_ns if self._next_ns is None else min(self._next_ns, now_ns)

    def drop(self, group: str, dimension: Dimension) -> None:
        """Nothing higher is wanted any more, or it is in force."""
        dropped = self._raises.pop((group, dimension), None)
        if dropped is not None and dropped.steps and dropped.again_ns is not None:
            self._withdrawn.add((group, dimension.monitoring_class))

    def due(self, now_ns: int) -> bool:
        """Whether something has to be said now."""
        return bool(self._withdrawn) or self.waits(now_ns)

    def is_pending(self) -> bool:
        """Whether something has to be said, now or should answers stay away."""
        return bool(self._withdrawn) or self._next_ns is not None

    def waits(self, now_ns: int) -> bool:
        """Whether answers are missed by now."""
        return self._next_ns is not None and now_ns >= self._next_ns

    def announced(self, sequence: int, now_ns: int) -> None:
        """All ceilings were said in this report."""
        self._withdrawn.clear()
        for raise_ in self._raises.values():
            raise_.announced(sequence)
            if raise_.again_ns is not None:
                raise_.again_ns = now_ns + raise_.gap_ns
                raise_.gap_ns = min(
                    raise_.gap_ns + self._settings.urgent_gap_ns, self._settings.round_ns
                )
        again = [each.again_ns for each in self._raises.values() if each.again_ns is not None]
        self._next_ns = min(again, default=None)

    def take(self, report: UsageReport, incarnation: int | None, now_ns: int) -> set[str]:
        """Take a peer's answer to this incarnation; return the groups whose raises waited for it."""
        sequence = None if incarnation is None else report.answers.get(incarnation)
        if sequence is None:
            return set()
        known = self._answers.get(report.broker)
        if known is not None and known[:2] == (report.incarnation, sequence):
            return set()
        self._answers[report.broker] = _Answer(report.incarnation, sequence, now_ns)
        return {
            group
            for (group, _), raise_ in self._raises.items()
            if raise_.waits_for in (None, report.broker)
        }

    def wait_for(self, group: str, dimension: Dimension, peer: str) -> None:
        """Nothing can be done before this peer says something."""
        self._raises[group, dimension].waits_for = peer

    def known_to(
        self,
        group: str,
        dimension: Dimension,
        peers: Collection[str],
        members: Mapping[str, Member],
        now_ns: int,
    ) -> int:
        """How far every one of these peers knows that this limit may rise; 0 is nothing."""
        raise_ = self._raises[group, dimension]
        # Nobody can know less than nothing, so whoever knew least is asked first.
        least = raise_.waits_for
        known, raise_.waits_for = raise_.ceiling, None
        for peer in (least, *peers) if least is not None and least in peers else peers:
            knows = self._known_by(peer, raise_, members, now_ns)
            if knows < known:
                known, raise_.waits_for = knows, peer
            if not known:
                break
        return known

    def _known_by(
        self, peer: str, raise_: _Raise, members: Mapping[str, Member], now_ns: int
    ) -> int:
        answer = self._answers.get(peer)
        if answer is not None and answer.incarnation != members[peer].incarnation:
            answer = None
        since_ns = max(raise_.wanted_ns, answer.heard_ns if answer else 0)
        if now_ns - since_ns >= self._settings.hold_ns:
            return raise_.ceiling  # it does not hear us, knows that, and raises nothing
        return raise_.known_since(answer.sequence) if answer else 0

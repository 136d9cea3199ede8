"""Pending raises: announced to the others, and in force once these have answered.

This is the half of the policy ``balanced`` that has a memory; policies.py has the proof of its safety. A
raise is announced as a *ceiling*, the limit up to which its broker may raise itself without another
report. Every report of a broker with raises lists them, so a peer that took a report knows the ceilings
in it. A ceiling that has grown is known from the report on that stated it first; one that has shrunk is
known at once, since a peer that knows the higher one is on the safe side.

Answers get lost as well. An urgent raise is announced again after 100 ms, 200 ms and so on, up to once a
round, and every participant replies at once (acknowledgements.py); a small one goes with the reports of
the rounds. A peer that is heard but has answered nothing for ``hold_ns`` does not hear this broker. It
has noticed that long ago (``silence_rounds``) and raises nothing before it has heard again, so this
broker does not wait for it: one broken link must not stop all others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from coordinator.core.invariants import holds
from coordinator.core.model import (
    DIMENSIONS_OF,
    Dimension,
    LimitKey,
    Member,
    Rates,
    ResourceGroup,
    TrafficKey,
    UsageReport,
)
from coordinator.core.settings import CoreSettings

MAX_STEPS = 8
"""The growing ceilings of one raise that are kept apart; a further one replaces the last."""


class _Step(NamedTuple):
    """Every ceiling announced since this report of ours was at least this high."""

    sequence: int
    ceiling: int


@dataclass(slots=True)
class _Raise:
    """One pending raise of a limit."""

    wanted_ns: int
    ceiling: int
    #: The last ceiling that was announced as urgent; before that, the limit in force.
    hurried: int
    #: When to announce it again at the latest; None leaves it to the rounds.
    again_ns: int | None = None
    gap_ns: int = 0
    #: The peer that knows the lowest ceiling; until it answers, other answers change nothing.
    waits_for: str | None = None
    #: Both numbers of a step are larger than those of the step before.
    steps: list[_Step] = field(default_factory=list)

    def announced(self, sequence: int) -> None:
        """Note that this report stated the ceiling."""
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
        """Return the ceiling known to a peer that took this report of ours; 0 is none."""
        return max((step.ceiling for step in self.steps if step.sequence <= sequence), default=0)


class _Answer(NamedTuple):
    """The newest report of ours that a peer has confirmed."""

    incarnation: int
    sequence: int
    #: When it first confirmed it.
    heard_ns: int


class Raises:
    """All pending raises of this broker. See the module's head."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._raises: dict[LimitKey, _Raise] = {}
        self._answers: dict[str, _Answer] = {}
        #: The earliest ``again_ns``.
        self._next_ns: int | None = None
        #: Keys with a ceiling that was given up; the others wait to hear of it.
        self._withdrawn: set[TrafficKey] = set()

    def restart(self) -> None:
        """Begin a new incarnation, which has announced nothing and has no answers."""
        self._answers.clear()
        for raise_ in self._raises.values():
            raise_.steps.clear()

    def set_members(self, members: Collection[str]) -> None:
        """Forget the answers of brokers that left; back again, one has answered nothing."""
        self._answers = {peer: it for peer, it in self._answers.items() if peer in members}

    def groups(self) -> set[str]:
        """Return the groups with a pending raise."""
        return {group for group, _ in self._raises}

    def keys(self) -> set[TrafficKey]:
        """Return the keys that the next report must list."""
        waiting = {(group, dimension.monitoring_class) for group, dimension in self._raises}
        return waiting | self._withdrawn

    def ceilings(self, key: TrafficKey) -> tuple[int | None, int | None]:
        """Return the ceilings to announce for messages and bytes; None where no raise is pending."""
        messages, bytes_ = DIMENSIONS_OF[key[1]]
        return self._ceiling(key[0], messages), self._ceiling(key[0], bytes_)

    def _ceiling(self, group: str, dimension: Dimension) -> int | None:
        raise_ = self._raises.get((group, dimension))
        return None if raise_ is None else raise_.ceiling

    def want(self, group: str, dimension: Dimension, held: int, ceiling: int, now_ns: int) -> None:
        """Note a raise from the limit in force up to the ceiling."""
        raise_ = self._raises.get((group, dimension))
        if raise_ is None:
            raise_ = self._raises[group, dimension] = _Raise(now_ns, ceiling, held)
        raise_.ceiling = ceiling
        # Room comes in small pieces, from many. A lower ceiling is urgent, too: others wait for it.
        if self._settings.moved(raise_.hurried, ceiling):
            raise_.hurried = ceiling
            raise_.again_ns, raise_.gap_ns = now_ns, 2 * self._settings.urgent_gap_ns
            self._next_ns = now_ns if self._next_ns is None else min(self._next_ns, now_ns)

    def drop(self, group: str, dimension: Dimension) -> None:
        """Drop a raise: the target is no higher any more, or it is in force."""
        dropped = self._raises.pop((group, dimension), None)
        if dropped is not None and dropped.steps and dropped.again_ns is not None:
            self._withdrawn.add((group, dimension.monitoring_class))

    def due(self, now_ns: int) -> bool:
        """Return whether a ceiling must be announced now."""
        return bool(self._withdrawn) or self.waits(now_ns)

    def is_pending(self) -> bool:
        """Return whether a ceiling must be announced, now or if answers are missing later."""
        return bool(self._withdrawn) or self._next_ns is not None

    def waits(self, now_ns: int) -> bool:
        """Return whether answers are overdue."""
        return self._next_ns is not None and now_ns >= self._next_ns

    def announced(self, sequence: int, now_ns: int) -> None:
        """Note that this report stated all ceilings."""
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
        """Note that the raise cannot go on before this peer answers."""
        self._raises[group, dimension].waits_for = peer

    def known_to(
        self,
        group: str,
        dimension: Dimension,
        peers: Collection[str],
        members: Mapping[str, Member],
        now_ns: int,
    ) -> int:
        """Return the lowest ceiling that these peers know for this limit; 0 is none."""
        raise_ = self._raises[group, dimension]
        # No peer knows less than 0, so the peer that knew least is asked first.
        least = raise_.waits_for
        known, raise_.waits_for = raise_.ceiling, None
        for peer in (least, *peers) if least is not None and least in peers else peers:
            knows = self._known_by(peer, raise_, members, now_ns)
            if knows < known:
                known, raise_.waits_for = knows, peer
            if not known:
                break
        return known

    def validate(
        self,
        groups: Mapping[str, ResourceGroup],
        in_force: Mapping[str, Rates],
        members: Collection[str],
    ) -> None:
        """Check every pending raise.

        Args:
            groups: the definitions.
            in_force: this broker's local limits.
            members: all live brokers.

        Raises:
            InvariantBroken: a statement does not hold.
        """
        for (group, dimension), raise_ in self._raises.items():
            place = {"group": group, "dimension": dimension.value}
            limit = groups[group].limits.of(dimension) if group in groups else None
            holds(limit is not None, "Only a limited dimension has a pending raise", **place)
            local, ceiling = in_force[group].of(dimension), raise_.ceiling
            holds(
                local is not None and limit is not None and local < ceiling <= limit,
                "A pending raise ends above the limit in force and within the group's limit",
                **place,
                in_force=local,
                ceiling=ceiling,
                limit=limit,
            )
            holds(
                all(one < other for one, other in pairwise(raise_.steps))
                and all(one.ceiling < other.ceiling for one, other in pairwise(raise_.steps)),
                "The announced ceilings of a raise grow from report to report",
                **place,
                steps=raise_.steps,
            )
            holds(
                raise_.again_ns is None
                or (self._next_ns is not None and self._next_ns <= raise_.again_ns),
                "The next announcement comes no later than any raise needs it",
                **place,
                next_ns=self._next_ns,
                again_ns=raise_.again_ns,
            )
            holds(
                raise_.waits_for is None or raise_.waits_for in members,
                "A raise waits for members only",
                **place,
                waits_for=raise_.waits_for,
            )

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

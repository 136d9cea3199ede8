"""One native group at one broker: its parts, its entry, and the pace and excess of its traffic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coordinator.core.answer import answer
from coordinator.core.model import MonitoringClass
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.entries import NOTHING, Amounts, Record
from coordinator.native.engine.overflow import Overflow
from coordinator.native.engine.pacing import Pacer
from coordinator.native.engine.parts import NativePart
from coordinator.native.engine.sets import GroupSet, name_of
from coordinator.native.engine.trim import WHOLE, Trim
from coordinator.native.engine.units import Units, UnitShares


@answer
class NativeView:
    """One resource group in Pulsar, as the answering sidecar steers it at its broker."""

    name: str
    """in Pulsar"""
    groups: GroupSet
    """that it stands for, narrowest first"""
    namespaces: tuple[str, ...]
    """that are attached to it in Pulsar"""
    record: Units
    """as it should be in Pulsar, per second"""
    record_seen: Units | None
    """as it is there; null: not seen yet"""
    part: Units
    """of the local limits, per second"""
    binding: tuple[str, ...]
    """for messages and bytes, the group that allows no more"""
    entry: Units
    """in this broker's name, of an interval"""
    others: Units
    """in all other brokers' names"""
    rest: Units
    """of the record that no broker gets"""
    trim_permille: UnitShares
    """of its part, for batches, or for what is lost"""
    held_permille: UnitShares
    """of the last poll, that clients waited"""
    dispatch: Units
    """of the local dispatch limits, per second; not limited, too, where they are not held here"""
    dispatch_topics: int
    """topics here with a dispatch rate for that"""


class NativeGroup:
    """One native group at this broker."""

    __slots__ = (
        "_dispatch_held", "_dispatch_more", "_dispatch_topics", "count", "dispatch_parts", "dispatched",
        "entry", "groups", "name", "overflows", "pacers", "parts", "trims",
    )  # fmt: skip

    def __init__(self, groups: GroupSet, interval_s: int) -> None:
        self.groups = groups
        self.name = name_of(groups)
        self.pacers = (Pacer(interval_s), Pacer(interval_s))
        #: Topics' rates know no interval, so what was sent is handed out by the second.
        self.dispatched = (Pacer(1), Pacer(1))
        self.dispatch_parts: tuple[NativePart | None, NativePart | None] = (None, None)
        self._dispatch_held = (0, 0)
        self._dispatch_more = NOTHING
        self._dispatch_topics = 0
        self.trims = (Trim(interval_s), Trim(interval_s))
        self.overflows = (Overflow(interval_s), Overflow(interval_s))
        self.parts: tuple[NativePart | None, NativePart | None] = (None, None)
        self.entry = NOTHING
        #: As of the last poll: who is connected.
        self.count = NamespaceCount()

    def set_parts(
        self,
        parts: tuple[NativePart | None, NativePart | None],
        scales: tuple[int, int],
        now_ns: int,
    ) -> None:
        """Take its parts here.

        Args:
            parts: of messages and bytes; None is unlimited.
            scales: how much of each entry the broker's quota is, in thousandths (rest.py).
            now_ns: the time.
        """
        self.parts = parts
        for part, pacer, target, scale in zip(
            parts, self.pacers, self.target(), scales, strict=True
        ):
            if part is None:
                pacer.set_limit(None, now_ns)
            else:
                pacer.set_limit(part.rate, now_ns, told=target * scale // WHOLE)

    def set_dispatch(
        self,
        parts: tuple[NativePart | None, NativePart | None],
        held: tuple[int, int],
        more: Amounts,
        now_ns: int,
        *,
        topics: int,
    ) -> None:
        """Take its dispatch limits here.

        Args:
            parts: of messages and bytes; None is unlimited, or not held here.
            held: how many topics want more than they get of each.
            more: what was paid for beyond what was sent since the last poll; less is below 0.
            now_ns: the time.
            topics: how many have a dispatch rate of their own.
        """
        self.dispatch_parts, self._dispatch_held = parts, held
        self._dispatch_more, self._dispatch_topics = more, topics
        for part, pacer in zip(parts, self.dispatched, strict=True):
            pacer.set_limit(None if part is None else part.rate, now_ns)

    def target(self) -> Amounts:
        """The publish rates here per second, less the trim, to the nearest whole message."""
        messages, bytes_ = (
            0 if part is None else (part.rate * trim.permille + WHOLE // 2) // WHOLE
            for part, trim in zip(self.parts, self.trims, strict=True)
        )
        return Amounts(messages, bytes_)

    @property
    def overflows_now(self) -> bool:
        """Whether more passes than the broker's limiter would let, in any unit."""
        return any(overflow.is_over for overflow in self.overflows)

    def unsettle(self) -> None:
        """Take the news of a changed record, which lets all of it pass until the next interval."""
        for each in (*self.trims, *self.overflows):
            each.unsettle()

    def counted(self, count: NamespaceCount, elapsed_ns: int, now_ns: int) -> None:
        """Take a poll of the broker's counters."""
        before, self.count = self.count, count
        _note_clients(self.pacers, before.producers, count.producers, now_ns)
        _note_clients(self.dispatched, before.consumers, count.consumers, now_ns)
        amounts = count.messages, count.bytes
        for amount, pacer, trim, overflow, part in zip(
            amounts, self.pacers, self.trims, self.overflows, self.parts, strict=True
        ):
            unsure = count.throttles_unsure
            pacer.count(amount, count.throttles, elapsed_ns, now_ns, unsure=unsure)
            rate = None if part is None else part.rate
            trim.count(amount, rate, elapsed_ns, held=pacer.is_held)
            overflow.count(amount, rate, elapsed_ns)
        sent = count.out_messages, count.out_bytes
        for amount, more, held, pacer in zip(
            sent, self._dispatch_more, self._dispatch_held, self.dispatched, strict=True
        ):
            pacer.count(max(0, amount + more), held, elapsed_ns, now_ns)
            if held:
                pacer.wait()

    def taken(self, now_ns: int) -> Iterator[tuple[MonitoringClass, list[int]]]:
        """Yield the counts to report since the last call: amounts, waiting times, participants."""
        count = self.count
        (messages, waited), (bytes_, waited_bytes) = (pacer.take(now_ns) for pacer in self.pacers)
        participants = [count.producers, count.producer_topics]
        yield MonitoringClass.PUBLISH, [messages, bytes_, waited, waited_bytes, *participants]
        (messages, waited), (bytes_, waited_bytes) = (
            pacer.take(now_ns) for pacer in self.dispatched
        )
        participants = [count.consumers, count.consumer_topics]
        yield MonitoringClass.DISPATCH, [messages, bytes_, waited, waited_bytes, *participants]

    def view(
        self,
        namespaces: tuple[str, ...],
        *,
        record: Record,
        record_seen: Record | None,
        others: Amounts,
        rest: Amounts,
    ) -> NativeView:
        """Return its present state, with the facts of Pulsar that it does not know itself."""
        messages, bytes_ = self.parts
        dispatch_messages, dispatch_bytes = self.dispatch_parts
        return NativeView(
            name=self.name,
            groups=self.groups,
            namespaces=namespaces,
            record=record,
            record_seen=record_seen,
            part=(
                None if messages is None else messages.rate,
                None if bytes_ is None else bytes_.rate,
            ),
            binding=(
                "" if messages is None else messages.binding,
                "" if bytes_ is None else bytes_.binding,
            ),
            entry=self.entry,
            others=others,
            rest=rest,
            trim_permille=(self.trims[0].permille, self.trims[1].permille),
            held_permille=(self.pacers[0].held_permille, self.pacers[1].held_permille),
            dispatch=(
                None if dispatch_messages is None else dispatch_messages.rate,
                None if dispatch_bytes is None else dispatch_bytes.rate,
            ),
            dispatch_topics=self._dispatch_topics,
        )


def _note_clients(pacers: Iterable[Pacer], before: int, now: int, now_ns: int) -> None:
    """Take how many clients of one class are connected: the first ones are presumed to wait."""
    for pacer in pacers:
        if not now:
            pacer.dismiss()
        elif not before:
            pacer.presume(now_ns)

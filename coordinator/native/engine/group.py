"""One native group at one broker: its parts, its entry, and the pace and excess of its traffic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coordinator.core.model import MonitoringClass
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.entries import NOTHING, Amounts, Record
from coordinator.native.engine.overflow import Overflow
from coordinator.native.engine.pacing import Pacer
from coordinator.native.engine.parts import NativePart
from coordinator.native.engine.sets import GroupSet, name_of
from coordinator.native.engine.trim import WHOLE, Trim


@dataclass(frozen=True, slots=True)
class NativeView:
    """One native group at this broker, with the reasons for its limits.

    Args:
        name: in Pulsar.
        groups: that it stands for.
        namespaces: that are to be attached to it.
        record: as it should be in Pulsar.
        record_seen: as it is there; None is that it was not seen.
        part: of the local limits, per second; None is unlimited.
        binding: the group that keeps each unit from more.
        entry: in this broker's name, of an interval.
        others: in all others' names.
        rest: in no broker's name.
        trim_permille: of what the limit asks for.
        held_permille: for how much of the last poll a producer waited.
    """

    name: str
    groups: GroupSet
    namespaces: tuple[str, ...]
    record: Record
    record_seen: Record | None
    part: tuple[int | None, int | None]
    binding: tuple[str, str]
    entry: Amounts
    others: Amounts
    rest: Amounts
    trim_permille: tuple[int, int]
    held_permille: tuple[int, int]


class NativeGroup:
    """One native group at this broker."""

    __slots__ = (
        "count", "dispatched", "entry", "groups", "name", "overflows", "pacers",
        "parts", "trims",
    )  # fmt: skip

    def __init__(self, groups: GroupSet, interval_s: int) -> None:
        self.groups = groups
        self.name = name_of(groups)
        self.pacers = (Pacer(interval_s), Pacer(interval_s))
        self.dispatched = (Pacer(interval_s), Pacer(interval_s))
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
        were, self.count = self.count.producers, count
        for pacer in self.pacers:
            if not count.producers:
                pacer.dismiss()
            elif not were:
                pacer.presume(now_ns)
        amounts = count.messages, count.bytes
        for amount, pacer, trim, overflow, part in zip(
            amounts, self.pacers, self.trims, self.overflows, self.parts, strict=True
        ):
            unsure = count.throttles_unsure
            pacer.count(amount, count.throttles, elapsed_ns, now_ns, unsure=unsure)
            rate = None if part is None else part.rate
            trim.count(amount, rate, elapsed_ns, held=pacer.is_held)
            overflow.count(amount, rate, elapsed_ns)
        for amount, pacer in zip(
            (count.out_messages, count.out_bytes), self.dispatched, strict=True
        ):
            pacer.count(amount, 0, elapsed_ns, now_ns)

    def taken(self, now_ns: int) -> Iterator[tuple[MonitoringClass, list[int]]]:
        """Yield the counts to report since the last call: amounts, waiting times, participants."""
        count = self.count
        (messages, waited), (bytes_, waited_bytes) = (pacer.take(now_ns) for pacer in self.pacers)
        participants = [count.producers, count.producer_topics]
        yield MonitoringClass.PUBLISH, [messages, bytes_, waited, waited_bytes, *participants]
        (messages, _), (bytes_, _) = (pacer.take(now_ns) for pacer in self.dispatched)
        participants = [count.consumers, count.consumer_topics]
        yield MonitoringClass.DISPATCH, [messages, bytes_, 0, 0, *participants]

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
        )

"""Nothing acknowledged is lost, doubled by us or reordered; per producer, and so per key as well.

Pulsar promises at least once: when a connection breaks, a client connects again and sends once more
what it has no receipt for, in order, and a consumer is given once more what it had not acknowledged. So
some messages come twice after a mishap that broke connections, and that is not the gate's doing. It
would be the gate's doing

- if a message with a receipt were not stored, or were stored and not delivered to a consumer that
  stayed subscribed;
- if a message were stored twice although no connection broke between its being sent and its receipt,
  or delivered twice although none broke while it happened;
- if the *first* copies were not in the order of sending, since resending starts at the oldest message
  without a receipt and never leaves one out;
- if a message were refused, or still had no answer long after the load: clients never give up;
- if in calm (recovery_window.py) a message with a receipt were delivered only seconds later, since
  consumers read along.

Only a connection to a broker to which a mishap happened may have broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from deploy.chaos.checker.history import Breach, History, TopicMessages
from deploy.chaos.checker.recovery_window import RecoveryWindow, Span, calm

_EXAMPLES = 5
_DELIVERED_WITHIN_S = 2.0


def check(history: History, recovery_windows: Sequence[RecoveryWindow]) -> Iterator[Breach]:
    """Look at every topic."""
    quiet = calm(history, recovery_windows)
    for topic in history.topics:
        homes = {sample.broker for sample in history.samples if sample.topic == topic.name}
        breaks = [each for each in recovery_windows if each.mishap.cuts & homes]
        if not any(sent.receipt_s is not None for sent in topic.sent):
            yield Breach("messages", f"{topic.name}: nothing was acknowledged, nothing is shown")
        yield from _lost(topic)
        yield from _unanswered(topic)
        yield from _strange(topic)
        yield from _doubled(topic, breaks)
        yield from _reordered(topic.name, "stored", [got.number for got in topic.stored])
        yield from _undelivered(topic)
        yield from _late(topic, quiet)
        yield from _redelivered(topic, breaks)
        yield from _reordered(topic.name, "delivered", [got.number for got in topic.delivered])


def _lost(topic: TopicMessages) -> Iterator[Breach]:
    stored = {got.number for got in topic.stored}
    lost = [s.number for s in topic.sent if s.receipt_s is not None and s.number not in stored]
    if lost:
        yield Breach("lost", f"{topic.name}: acknowledged and not stored: {_some(lost)}")


def _unanswered(topic: TopicMessages) -> Iterator[Breach]:
    refused = [sent for sent in topic.sent if sent.refusal]
    if refused:
        why = ", ".join(sorted({sent.refusal for sent in refused}))
        numbers = _some([sent.number for sent in refused])
        yield Breach("refused", f"{topic.name}: refused with {why}: {numbers}")
    unanswered = [s.number for s in topic.sent if s.receipt_s is None and not s.refusal]
    if unanswered:
        yield Breach("unanswered", f"{topic.name}: never answered: {_some(unanswered)}")


def _strange(topic: TopicMessages) -> Iterator[Breach]:
    sent = {message.number for message in topic.sent}
    strange = sorted({got.number for got in topic.stored} - sent)
    if strange:
        yield Breach("strange", f"{topic.name}: stored and never sent: {_some(strange)}")


def _doubled(topic: TopicMessages, breaks: Sequence[RecoveryWindow]) -> Iterator[Breach]:
    copies = Counter(got.number for got in topic.stored)
    doubled = [
        sent.number
        for sent in topic.sent
        if copies[sent.number] > 1
        and sent.receipt_s is not None
        and not _broke(breaks, sent.sent_s, sent.receipt_s)
    ]
    if doubled:
        yield Breach(
            "doubled",
            f"{topic.name}: stored more than once, and no connection broke: {_some(doubled)}",
        )


def _reordered(topic: str, where: str, numbers: Sequence[int]) -> Iterator[Breach]:
    highest = -1
    seen: set[int] = set()
    late: list[int] = []
    for number in numbers:
        if number not in seen and number < highest:
            late.append(number)
        seen.add(number)
        highest = max(highest, number)
    if late:
        yield Breach("reordered", f"{topic}: {where} after a later one: {_some(late)}")


def _undelivered(topic: TopicMessages) -> Iterator[Breach]:
    delivered = {(got.message_id, got.number) for got in topic.delivered}
    missing = [got.number for got in topic.stored if (got.message_id, got.number) not in delivered]
    if missing:
        yield Breach("undelivered", f"{topic.name}: stored, never delivered: {_some(missing)}")


def _late(topic: TopicMessages, quiet: Sequence[Span]) -> Iterator[Breach]:
    first_s: dict[int, float] = {}
    for got in topic.delivered:
        first_s.setdefault(got.number, got.at_s)
    late = [
        sent.number
        for sent in topic.sent
        if sent.receipt_s is not None
        and first_s.get(sent.number, inf) > sent.receipt_s + _DELIVERED_WITHIN_S
        and _within(quiet, sent.receipt_s, sent.receipt_s + _DELIVERED_WITHIN_S)
    ]
    if late:
        within = f"not delivered within {_DELIVERED_WITHIN_S:g} s, and nothing was wrong"
        yield Breach("late", f"{topic.name}: {within}: {_some(late)}")


def _within(spans: Sequence[Span], from_s: float, until_s: float) -> bool:
    return any(start_s <= from_s and until_s <= end_s for start_s, end_s in spans)


def _redelivered(topic: TopicMessages, breaks: Sequence[RecoveryWindow]) -> Iterator[Breach]:
    first_s: dict[str, float] = {}
    again = []
    for got in topic.delivered:
        before_s = first_s.get(got.message_id)
        if before_s is None:
            first_s[got.message_id] = got.at_s
        elif not _broke(breaks, before_s, got.at_s):
            again.append(got.number)
    if again:
        yield Breach(
            "redelivered",
            f"{topic.name}: delivered more than once, and no connection broke: {_some(again)}",
        )


def _broke(breaks: Sequence[RecoveryWindow], from_s: float, until_s: float) -> bool:
    """Say whether a client may have found its connection broken in this time."""
    return any(recovery_window.excuses(from_s, until_s) for recovery_window in breaks)


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:_EXAMPLES])
    more = len(numbers) - _EXAMPLES
    return f"{shown} and {more} more" if more > 0 else shown

"""Delayed messages that count against a group of their own, at gates that have such a group (modes.py).

Everywhere else in the engine, each message of a producer needs the tokens of the same limiters. Here a
delayed one needs those of one more. Only the session knows which of the two its gate is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from coordinator.gate.engine.producer import Cost, Producer
from coordinator.gate.engine.requests import ClientRequests
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.service_order import ClientTurns
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.gate.protocol.payload import Published
from coordinator.gate.protocol.runs import find_prompt_frame
from coordinator.gate.protocol.stream import Decision, FrameVerdict

_TAKEN: Final = (FrameVerdict.PASSES, FrameVerdict.TAKEN)
"""Decisions after which the frame is not decided again."""


class DelayedCost(Cost):
    """The tokens that a delayed SEND needs."""


class DelayingProducer(Producer):
    """A producer whose delayed messages need the tokens of all its limiters.

    ``limiters`` are those that every message needs, as of any producer.
    """

    __slots__ = ("all_limiters",)

    def __init__(
        self,
        producer_id: int,
        topic: str,
        client: ClientTurns,
        *,
        remote: str | None,
        forward: Callable[[Producer, bytes, Cost], None],
        overdue: Callable[[Producer, int], None],
    ) -> None:
        super().__init__(
            producer_id, topic, client, remote=remote, forward=forward, overdue=overdue
        )
        self.all_limiters: tuple[PublishLimiter, ...] = ()

    def counts_for(self, groups: tuple[Group, ...]) -> bool:
        """Return whether it counts for exactly these groups now."""
        return self.all_limiters == self._limiters_of(groups)

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; it must not wait if the groups differ."""
        if not self.counts_for(groups):
            self._give_back()  # to those that were paid: they are told by ``limiters``
        self.limiters = self.all_limiters
        super().attach(groups)
        self.all_limiters = self.limiters
        self.limiters = tuple(
            limiter
            for limiter in self.all_limiters
            if limiter.reason is not ThrottleReason.DELAYED_MESSAGES
        )

    @property
    def needed(self) -> tuple[PublishLimiter, ...]:
        """The limiters that must admit the first held message."""
        return self.all_limiters if isinstance(self.next, DelayedCost) else self.limiters


class DelayingRequests(ClientRequests):
    """The client's frames at such a gate."""

    _find_frame = staticmethod(find_prompt_frame)

    def _admit(
        self,
        producer: Producer,
        limiters: Sequence[PublishLimiter],
        published: Published,
        cost: Cost,
        data: bytes,
        start: int,
        frame_end: int,
    ) -> Decision:
        """Let a publish pass, or hold it; count it once if it is delayed."""
        deliver_at_ms = published.deliver_at_ms
        if deliver_at_ms is None:
            return super()._admit(producer, limiters, published, cost, data, start, frame_end)
        assert isinstance(producer, DelayingProducer), "the session makes them"
        limiters, cost = producer.all_limiters, DelayedCost(*cost)
        decision = super()._admit(producer, limiters, published, cost, data, start, frame_end)
        delayed = self._groups.delayed
        if delayed is not None and not producer.exempt and decision in _TAKEN:
            is_due = deliver_at_ms <= published.published_ms
            delayed.came(producer.topic, published.messages, is_due=is_due)
        return decision

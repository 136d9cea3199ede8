"""A producer of a connection, and what is held of it: SENDs in order, and what waits behind them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from coordinator.gate.group import Group
from coordinator.gate.limiter import PublishLimiter
from coordinator.gate.participant import Participant
from coordinator.gate.throttle import ThrottleReason


class Cost(NamedTuple):
    """What a SEND needs to pass: tokens, those of limits on delayed messages only if it is one."""

    messages: int
    size: int
    is_delayed: bool


class _HeldFrame(NamedTuple):
    """A frame that waits; a command that waits behind its producer's SENDs costs nothing."""

    frame: bytes
    cost: Cost | None
    since_ns: int


class Producer(Participant[PublishLimiter]):
    """Limited and counted on publish; waits in the admission queue while it holds frames.

    Messages that are delayed need the tokens of all its limiters, all others those of the *prompt* ones.

    Args:
        topic: what it publishes to.
        exempt: whether it replicates from another cluster, and so counts against no group.
        forward: takes a frame that is released, and its messages; 0 is a command.
    """

    __slots__ = ("_forward", "held", "held_bytes", "producer_id", "prompt_limiters", "unanswered")

    def __init__(
        self, producer_id: int, topic: str, *, exempt: bool, forward: Callable[[bytes, int], None]
    ) -> None:
        super().__init__(topic, exempt=exempt)
        self.producer_id = producer_id
        self._forward = forward
        #: In order of arrival; the first one is a SEND.
        self.held: deque[_HeldFrame] = deque()
        self.held_bytes = 0
        #: Who must admit a message that is not delayed.
        self.prompt_limiters: tuple[PublishLimiter, ...] = ()
        #: SENDs that went to the broker and have no receipt yet.
        self.unanswered = 0

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; must not be waiting if they are others."""
        super().attach(groups)
        self.prompt_limiters = tuple(
            limiter
            for limiter in self.limiters
            if limiter.reason is not ThrottleReason.DELAYED_MESSAGES
        )

    @property
    def needed(self) -> tuple[PublishLimiter, ...]:
        """Who must admit the first held message."""
        return self.limiters if self._next.is_delayed else self.prompt_limiters

    @property
    def refusal(self) -> str:
        """What its publishes are answered with in place of being held; empty if they are held."""
        return next((limiter.refusal for limiter in self.limiters if limiter.refusal), "")

    @property
    def reason(self) -> ThrottleReason:
        """Whose limit it waits for."""
        assert self.waits_for is not None
        return self.waits_for.reason

    @staticmethod
    def _limiter_of(group: Group) -> PublishLimiter:
        return group.publish_limiter

    @property
    def held_since_ns(self) -> int:
        """When the first held message came."""
        return self.held[0].since_ns

    def hold(self, frame: bytes, cost: Cost | None, now_ns: int) -> None:
        """Keep a frame behind those that are already held."""
        self.held.append(_HeldFrame(frame, cost, now_ns))
        self.held_bytes += len(frame)

    def next_cost(self) -> tuple[int, int]:
        """Messages and bytes of the first held message."""
        messages, size, _ = self._next
        return messages, size

    @property
    def _next(self) -> Cost:
        cost = self.held[0].cost
        assert cost is not None, "the first one is a SEND"
        return cost

    def release(self) -> bool:
        """Forward the first held message and the commands behind it; tell whether there are more."""
        self._forward_first()
        while self.held and self.held[0].cost is None:
            self._forward_first()
        return bool(self.held)

    def _forward_first(self) -> None:
        frame, cost, _ = self.held.popleft()
        messages = 0
        if cost is not None:
            messages = cost.messages
            self.namespace.messages += messages
            self.namespace.bytes += cost.size
        self.held_bytes -= len(frame)
        self.unanswered += messages > 0
        self._forward(frame, messages)

    def drop_held(self) -> list[bytes]:
        """Forget the held messages; give back the commands that waited behind them."""
        commands = [held.frame for held in self.held if held.cost is None]
        self.held.clear()
        self.held_bytes = 0
        return commands

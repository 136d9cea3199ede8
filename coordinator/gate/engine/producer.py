"""A producer of a connection, and its held frames: SENDs in order, and commands behind them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from coordinator.gate.engine.participant import Participant
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.throttle import ThrottleReason


class Cost(NamedTuple):
    """The tokens that a SEND needs; limits on delayed messages charge only delayed ones.

    If the gate refuses the SEND, the answer carries its sequence id.
    """

    messages: int
    size: int
    is_delayed: bool
    sequence_id: int


class _HeldFrame(NamedTuple):
    """A held frame; a command that waits behind its producer's SENDs needs no tokens."""

    frame: bytes
    cost: Cost | None
    since_ns: int


HELD_FRAME_OVERHEAD: Final = 264
"""Memory of a held frame beside its bytes: a bytes object, two tuples, their numbers and a place in the
queue (CPython 3.11 to 3.13, 64 bits; tests/gate/test_held_memory.py measures it)."""


class Producer(Participant[PublishLimiter]):
    """Limited and counted on publish; waits in the admission queue while it holds frames.

    Delayed messages need the tokens of all its limiters, all others only those of the *prompt* limiters.

    A frame that costs more than a limiter lends at once (`Limiter.most`) is paid for in instalments. Each
    instalment waits for its turn like a message, so that others are served between them, and the frame
    passes with the last one.

    Args:
        topic: the topic that it publishes to.
        exempt: whether it replicates from another cluster, and so counts against no group.
        forward: takes a released frame, and the number of its messages; 0 is a command.
    """

    __slots__ = (
        "_forward", "_paid", "held", "held_bytes", "producer_id", "prompt_limiters", "unanswered",
    )  # fmt: skip

    def __init__(
        self, producer_id: int, topic: str, *, exempt: bool, forward: Callable[[bytes, int], None]
    ) -> None:
        super().__init__(topic, exempt=exempt)
        self.producer_id = producer_id
        self._forward = forward
        #: In order of arrival; the first one is a SEND.
        self.held: deque[_HeldFrame] = deque()
        self.held_bytes = 0
        #: Messages and bytes of the first held frame that are already paid for.
        self._paid = (0, 0)
        #: The limiters that must admit a message that is not delayed.
        self.prompt_limiters: tuple[PublishLimiter, ...] = ()
        #: SENDs that went to the broker and have no receipt yet.
        self.unanswered = 0

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; it must not wait if the groups differ."""
        super().attach(groups)
        self.prompt_limiters = tuple(
            limiter
            for limiter in self.limiters
            if limiter.reason is not ThrottleReason.DELAYED_MESSAGES
        )

    @property
    def needed(self) -> tuple[PublishLimiter, ...]:
        """The limiters that must admit the first held message."""
        return self.limiters if self._next.is_delayed else self.prompt_limiters

    @property
    def refusal(self) -> str:
        """The error that answers its publishes instead of holding them; empty if they are held."""
        return next((limiter.refusal for limiter in self.limiters if limiter.refusal), "")

    @property
    def reason(self) -> ThrottleReason:
        """The kind of limit that it waits for."""
        assert self.waits_for is not None
        return self.waits_for.reason

    @staticmethod
    def _limiter_of(group: Group) -> PublishLimiter:
        return group.publish_limiter

    @property
    def held_since_ns(self) -> int:
        """The time at which the first held message came."""
        return self.held[0].since_ns

    def hold(self, frame: bytes, cost: Cost | None, now_ns: int) -> None:
        """Hold a frame behind those that are already held."""
        self.held.append(_HeldFrame(frame, cost, now_ns))
        self.held_bytes += len(frame) + HELD_FRAME_OVERHEAD

    def next_cost(self) -> tuple[int, int]:
        """Return the messages and bytes of the first held frame, or of its next instalment."""
        cost = self._next
        messages, size = cost.messages - self._paid[0], cost.size - self._paid[1]
        for limiter in self.needed:
            most_messages, most_bytes = limiter.most
            messages, size = min(messages, most_messages), min(size, most_bytes)
        return messages, size

    @property
    def _next(self) -> Cost:
        cost = self.held[0].cost
        assert cost is not None, "the first one is a SEND"
        return cost

    def release(self) -> bool:
        """Forward the first held frame if it is paid for, and tell whether more are held.

        Commands that waited behind it pass with it.
        """
        instalment, cost = self.next_cost(), self._next
        self._paid = (self._paid[0] + instalment[0], self._paid[1] + instalment[1])
        if self._paid != (cost.messages, cost.size):
            return True
        self._forward_first()
        while self.held and self.held[0].cost is None:
            self._forward_first()
        return bool(self.held)

    def _forward_first(self) -> None:
        frame, cost, _ = self.held.popleft()
        self._paid = (0, 0)
        messages = 0
        if cost is not None:
            messages = cost.messages
            self.namespace.messages += messages
            self.namespace.bytes += cost.size
        self.held_bytes -= len(frame) + HELD_FRAME_OVERHEAD
        self.unanswered += messages > 0
        self._forward(frame, messages)

    def drop_held(self) -> list[bytes]:
        """Drop the held messages; return the commands that waited behind them."""
        commands = [held.frame for held in self.held if held.cost is None]
        self.held.clear()
        self.held_bytes = 0
        self._paid = (0, 0)
        return commands

"""A producer of a connection, and its held SENDs, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD, Participant
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.metering import instalment_of
from coordinator.gate.limits.service_order import ClientTurns
from coordinator.gate.limits.throttle import ThrottleReason


class Cost(NamedTuple):
    """The tokens that a SEND needs. If the gate refuses it, the answer carries its sequence id.

    A chunk is never refused for a limit: of a message without one of its chunks, consumers keep the
    others until they run out of room.
    """

    messages: int
    size: int
    sequence_id: int
    is_chunk: bool = False


class _HeldFrame(NamedTuple):
    """A held SEND."""

    frame: bytes
    cost: Cost
    since_ns: int


class Producer(Participant[PublishLimiter]):
    """Limited and counted on publish; waits in the admission queue while it holds frames.

    A frame that costs more than a limiter lends (`PublishLimiter.lends`) is paid for in instalments. Each
    waits for its turn like a message, so that others are served between them, and the frame passes with
    the last one.

    Args:
        topic: the topic that it publishes to.
        client: the turns of its client.
        remote: the cluster that it replicates from, whose group alone it counts against; None if it does
            not replicate.
        forward: takes a released frame of a producer, and its cost.
        overdue: told of a held message that has waited for the patience of its limiter, and the time.
    """

    __slots__ = (
        "_forward", "_overdue", "_paid", "buffer_share", "held", "held_bytes", "producer_id", "remote",
        "unanswered",
    )  # fmt: skip

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
        super().__init__(topic, client, exempt=remote is not None)
        self.remote = remote
        self.producer_id = producer_id
        self._forward = forward
        self._overdue = overdue
        #: In order of arrival.
        self.held: deque[_HeldFrame] = deque()
        self.held_bytes = 0
        #: The share of the publish buffer in which these bytes count; see ``HoldBuffer``.
        self.buffer_share = ""
        #: Messages and bytes of the first held frame that are already paid for.
        self._paid = (0, 0)
        #: SENDs that went to the broker and have no receipt yet.
        self.unanswered = 0

    @property
    def refusal(self) -> str:
        """The error that answers its publishes instead of holding them; empty if they are held."""
        return next((limiter.refusal for limiter in self.limiters if limiter.refusal), "")

    @property
    def reason(self) -> ThrottleReason:
        """The kind of limit that it waits for."""
        assert self.waits_for is not None
        return self.waits_for.reason

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; it must not wait if the groups differ."""
        if not self.counts_for(groups):
            self._give_back()
        super().attach(groups)

    @staticmethod
    def _limiter_of(group: Group) -> PublishLimiter:
        return group.publish_limiter

    @property
    def held_since_ns(self) -> int:
        """The time at which the first held message came."""
        return self.held[0].since_ns

    @property
    def gives_up_ns(self) -> int | None:
        """The time at which the first held message has waited for its limiter's patience."""
        patience_ns = None if self.waits_for is None else self.waits_for.patience_ns
        return None if patience_ns is None else self.held_since_ns + patience_ns

    def give_up(self, now_ns: int) -> None:
        """See `Waiter.give_up`."""
        self._overdue(self, now_ns)

    @property
    def can_be_refused(self) -> bool:
        """Whether its first held message is whole and nothing of it is paid for."""
        return not self.next.is_chunk and self._paid == (0, 0)

    def refuse_first(self) -> tuple[int, Cost]:
        """Drop the first held message; return the bytes that it took, and its cost."""
        frame, cost, _ = self.held.popleft()
        held_bytes = len(frame) + HELD_FRAME_OVERHEAD
        self.held_bytes -= held_bytes
        return held_bytes, cost

    def hold(self, frame: bytes, cost: Cost, now_ns: int) -> None:
        """Hold a frame behind those that are already held."""
        self.held.append(_HeldFrame(frame, cost, now_ns))
        self.held_bytes += len(frame) + HELD_FRAME_OVERHEAD

    def next_cost(self) -> tuple[int, int]:
        """Return the messages and bytes of the first held frame, or of its next instalment."""
        cost = self.next
        return instalment_of(self.needed, (cost.messages, cost.size), self._paid)

    @property
    def passes_next(self) -> bool:
        """Whether the next release lets the first held frame pass: it is the last instalment."""
        cost, (messages, size) = self.next, self.next_cost()
        return (self._paid[0] + messages, self._paid[1] + size) == (cost.messages, cost.size)

    @property
    def next(self) -> Cost:
        """The cost of the first held message."""
        return self.held[0].cost

    def release(self) -> bool:
        """Forward the first held frame if it is paid for, and tell whether more are held."""
        instalment, cost = self.next_cost(), self.next
        self._paid = (self._paid[0] + instalment[0], self._paid[1] + instalment[1])
        if self._paid != (cost.messages, cost.size):
            return True
        frame, cost, _ = self.held.popleft()
        self._paid = (0, 0)
        self.namespace.messages += cost.messages
        self.namespace.bytes += cost.size
        self.unanswered += 1
        self.held_bytes -= len(frame) + HELD_FRAME_OVERHEAD
        self._forward(self, frame, cost)
        return bool(self.held)

    def drop_held(self) -> None:
        """Drop the held messages, and give back what was paid of the first one."""
        self._give_back()
        self.held.clear()
        self.held_bytes = 0

    def _give_back(self) -> None:
        messages, size = self._paid
        if (messages, size) != (0, 0):
            for limiter in self.needed:
                limiter.counter.messages -= messages
                limiter.counter.bytes -= size
            self._paid = (0, 0)

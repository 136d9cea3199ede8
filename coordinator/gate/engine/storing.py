"""Commands of one connection that have the broker store something beside messages.

What they store counts against the limits of its topic like a message: a schema or a marker as one entry
(protocol/contents.py). A command passes once all of it is paid for, in instalments if it costs more than
a limiter lends, and waits for its turn among producers and consumers until then. Later commands of the
connection that open, close or store wait behind it, so that the broker gets them in the order in which
the client sent them; messages, acknowledgements and permits do not.

The gate charges before the broker has judged the request. What the broker refuses it gives back, so a
client that may not write to a topic takes nothing of its limit for good. A broker stores the schema of a
producer before it finds that another one has its name: an error that may come after that gives nothing
back, or a client could store without end what it never pays for. Markers are given back with any error:
their client need not be allowed to publish to the topic. What the broker has accepted once, it does not
store again: the gate remembers that, and lets it pass without a charge.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.engine.participants import Participants
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.metering import MeteredLimiter, instalment_of
from coordinator.gate.limits.publish_buffer import COMMANDS
from coordinator.gate.limits.service_order import ClientTurns, Turn
from coordinator.gate.protocol.contents import Content, Storing


@dataclass(slots=True)
class _Command:
    """A held command.

    Args:
        frame: its bytes; none once the broker has it.
        request_id: what the broker answers.
        contents: what it stores and is not paid for yet, in order.
        since_ns: when it came.
        charged: what was paid, by limiter.
        keys: of the contents that are paid for.
    """

    frame: bytes
    request_id: int
    contents: deque[Content]
    since_ns: int
    charged: list[tuple[PublishLimiter, int, int]] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)


class StoringCommands:
    """Waits in the admission queue while it holds commands; see ``Waiter``.

    Args:
        groups: resolves topics.
        queue: serves what waits.
        participants: of the connection.
        send: takes a command for the broker.
        count_held: takes a share of the publish buffer and the bytes that are held more, or less.
        now_ns: the time of the call that is being handled.
    """

    def __init__(
        self,
        groups: GroupTable,
        queue: AdmissionQueue,
        participants: Participants,
        *,
        send: Callable[[bytes], None],
        count_held: Callable[[str, int], None],
        now_ns: Callable[[], int],
    ) -> None:
        self._groups = groups
        self._queue = queue
        self._participants = participants
        self._send = send
        self._count_held = count_held
        self._now_ns = now_ns
        self._held: deque[_Command] = deque()
        #: The command that is being held: it need not be sent if it is paid for at once.
        self._new: _Command | None = None
        #: The limiters of the first content that is not paid for, and what of it is.
        self._limiters: tuple[PublishLimiter, ...] = ()
        self._paid = (0, 0)
        #: The limiters whose groups it is a participant of, and with which topic.
        self._joined: tuple[PublishLimiter, ...] = ()
        self._joined_topic = ""
        #: Commands that the broker has and has not answered, by request id.
        self._unanswered: dict[int, _Command] = {}
        #: The admission queue keeps these; see ``Waiter``.
        self.turn: Turn = (0, 0)
        self.served_until_ns: dict[MeteredLimiter, int] = {}
        self.waits_for: MeteredLimiter | None = None

    def __len__(self) -> int:
        return len(self._held)

    def is_due(self, storing: Storing) -> bool:
        """Return whether a command has to be paid for, or waits behind one that has to be."""
        return bool(self._held) or any(map(self._is_new, storing.contents))

    def hold(self, frame: bytes, storing: Storing) -> bool:
        """Hold a command until it is paid for; tell whether it is, and so passes in its place."""
        contents = deque(filter(self._is_new, storing.contents))
        command = _Command(frame, storing.request_id, contents, self._now_ns())
        self._held.append(command)
        self._count_held(COMMANDS, len(frame) + HELD_FRAME_OVERHEAD)
        if len(self._held) == 1:
            self._new = command
            self._begin()
            self._new = None
        return not self._held

    def answered(self, request_id: int, *, stored: bool) -> None:
        """Take the broker's answer: it has stored what a command brings, or has refused it."""
        command = self._unanswered.pop(request_id, None)
        if command is None:
            return
        if stored:
            for key in filter(None, command.keys):
                self._groups.known_contents.add(key)
        else:
            self._give_back(command)

    def may_have_stored(self, request_id: int) -> None:
        """Take an error that may come after the broker stored what a command brings: it stays paid.

        Of markers a broker has written none then: it says ERROR where it has no transactions.
        """
        command = self._unanswered.get(request_id)
        if command is not None and any(command.keys):
            del self._unanswered[request_id]

    def reattach(self) -> None:
        """Resolve the groups of the first command again; it waits for the new ones."""
        if self._held:
            self._queue.withdraw(self, self._now_ns())
            self.served_until_ns.clear()
            self._begin()

    def close(self) -> None:
        """Drop all commands, because the connection is closed; the broker never had them."""
        self._queue.withdraw(self, self._now_ns())
        for command in self._held:
            self._count_held(COMMANDS, -len(command.frame) - HELD_FRAME_OVERHEAD)
            self._give_back(command)
        self._held.clear()
        self._unanswered.clear()

    # As the queue sees it.

    @property
    def client(self) -> ClientTurns:
        """The client whose turns it shares."""
        return self._participants.client

    @property
    def needed(self) -> Sequence[PublishLimiter]:
        """The limiters that must admit what is paid next."""
        return self._limiters

    @property
    def passes_next(self) -> bool:
        """Whether the next release pays for the last of the first command."""
        contents = self._held[0].contents
        messages, size = self.next_cost()
        paid = (self._paid[0] + messages, self._paid[1] + size)
        return len(contents) == 1 and paid == (contents[0].messages, contents[0].size)

    @property
    def held_since_ns(self) -> int:
        """The time at which the first command came."""
        return self._held[0].since_ns

    @property
    def gives_up_ns(self) -> int | None:
        """None: a request waits until it passes."""
        return None

    def give_up(self, now_ns: int) -> None:
        """Do nothing: a request waits until it passes."""

    def wait_for(self, limiter: MeteredLimiter | None, now_ns: int) -> None:  # noqa: ARG002 - of the queue
        """Wait for this limiter from now on, or for none; it is a participant of the groups meanwhile."""
        self.waits_for = limiter
        before, self._joined = self._joined, () if limiter is None else self._limiters
        topic = self._held[0].contents[0].topic if self._joined else ""
        for each in self._joined:
            each.counter.join(topic)
        for each in before:
            each.counter.leave(self._joined_topic)
        self._joined_topic = topic

    def next_cost(self) -> tuple[int, int]:
        """Return the messages and bytes of the first content, or of its next instalment."""
        content = self._held[0].contents[0]
        return instalment_of(self._limiters, (content.messages, content.size), self._paid)

    def release(self) -> bool:
        """Take what was paid; pass all commands that are paid for, and tell whether more are held."""
        command = self._held[0]
        messages, size = self.next_cost()
        command.charged += ((limiter, messages, size) for limiter in self._limiters)
        self._paid = (self._paid[0] + messages, self._paid[1] + size)
        content = command.contents[0]
        if self._paid == (content.messages, content.size):
            command.contents.popleft()
            command.keys.append(content.key)
            self._paid = (0, 0)
            self._pass_on()
        return bool(self._held)

    def _begin(self) -> None:
        self._pass_on()
        if self._held:
            self._queue.wait(self, self._now_ns())

    def _pass_on(self) -> None:
        """Pass the commands that are paid for, up to the first one that is not."""
        while self._held and not self._held[0].contents:
            command = self._held.popleft()
            if command.charged:
                self._unanswered[command.request_id] = command
            frame, command.frame = command.frame, b""
            self._count_held(COMMANDS, -len(frame) - HELD_FRAME_OVERHEAD)
            if command is not self._new:
                self._send(frame)
        self._resolve()

    def _resolve(self) -> None:
        """Find the limiters of the first content that is not paid for, and forget all others."""
        self._limiters = ()
        if self._held:
            topic, role = self._held[0].contents[0].topic, self._participants.role
            groups = self._groups.resolve(topic, self._now_ns(), role)
            self._groups.wake(groups)  # what is paid at once has no participant
            self._limiters = tuple(group.publish_limiter for group in groups)
        served = self.served_until_ns
        self.served_until_ns = {each: served[each] for each in self._limiters if each in served}

    def _is_new(self, content: Content) -> bool:
        return not (content.key and self._groups.known_contents.has(content.key))

    def _give_back(self, command: _Command) -> None:
        for limiter, messages, size in command.charged:
            limiter.counter.messages -= messages
            limiter.counter.bytes -= size
        for limiter in dict.fromkeys(limiter for limiter, _, _ in command.charged):
            self._queue.serve_limiter(limiter, self._now_ns())

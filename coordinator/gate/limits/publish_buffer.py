"""The memory for held frames, which all connections share, and which no limit may take for itself.

Many queues in one memory are an old problem of switches, and its rule is that of Choudhury and Hahne
("Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking,
1998): a queue may grow only while it holds less than alpha times what is free. No queue has memory set
aside for it, and yet some is free for one that begins. Here alpha is 1, and a queue is a *share*.

*A share* is what waits for one limit, on all connections: that of a resource group or of the broker. All
limits of single topics of a tenant are one, as clients make topics. So are all commands that have the
broker store something: who names a topic in them need not be allowed to publish to it. Of the units that
are known when a frame is held, a limit is the one that no client multiplies. Connections are free; roles
and addresses are one in a cluster without authentication or behind a proxy, and hundreds in a group that
has as many clients.

Publishes and deliveries have memories of their own, under the same rule (`SharedBytes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

COMMANDS: Final = "commands"
"""The share of commands that have the broker store something."""

_NEVER: Final = 1 << 62
"""More than is ever free."""

Owner = Callable[[], None]
"""A connection, as the buffer sees it: called when there is room again. It comes back later, and asks the
buffer nothing within the call."""


class SharedBytes:
    """Bytes that shares hold in one memory, each no more than it leaves free.

    *Rule.* A share may hold one more frame if it holds no more with it than what is free then. One that
    holds nothing may hold any frame that fits into what is free; any frame fits when nothing is held.

    *Guarantee.* A share takes half of the memory at most, with any number of connections. Shares that
    want more than there is come to equal parts while their limits let something pass: n of them hold
    n/(n + 1) of it, and the rest is free. Where nothing passes, each keeps what it took when it came:
    1/2, 1/4, 1/8 and so on. So n shares leave at least (1/2)^n to others, as long as that is more than a
    frame: of 512 MiB, six leave 8 MiB. (A share that grew before others holds at most what is free and
    what these hold.)

    *Not guaranteed* is anything within a share: who waits for the same limit takes from the same part. A
    client that waits for several limits takes from the part of each.

    Args:
        bytes_max: the bytes of the memory; None is no bound.
    """

    def __init__(self, bytes_max: int | None) -> None:
        self._bytes_max = bytes_max
        #: The bytes of each share that holds any.
        self._held: dict[str, int] = {}
        #: The bytes of all shares.
        self.held_bytes = 0
        #: Bytes that are not free, though no share holds them.
        self.taken_beside = 0

    @property
    def free_bytes(self) -> int:
        """The bytes that are free: below 0 if a frame is larger than the memory."""
        if self._bytes_max is None:
            return _NEVER
        return self._bytes_max - self.taken_beside - self.held_bytes

    @property
    def shares(self) -> frozenset[str]:
        """The shares that hold something."""
        return frozenset(self._held)

    def of(self, share: str) -> int:
        """Return the bytes that a share holds."""
        return self._held.get(share, 0)

    def has_room(self, share: str, size: int) -> bool:
        """Return whether a share may hold one more frame."""
        if self._bytes_max is None or not self.held_bytes:
            return True
        held, free = self._held.get(share, 0), self.free_bytes - size
        return held + size <= free if held else free >= 0

    def count(self, share: str, size: int) -> None:
        """Count this many more bytes of a share, or fewer if negative."""
        self.held_bytes += size
        held = self._held.get(share, 0) + size
        if held:
            self._held[share] = held
        else:
            self._held.pop(share, None)

    def move(self, share: str, to: str, size: int) -> bool:
        """Count held bytes in another share, if that may hold them: they wait for another limit now."""
        if size and self.of(to) + size > self.free_bytes:
            return False
        self.count(to, size)
        self.count(share, -size)
        return True


class Reservation:
    """The room that a connection keeps for the one frame that is arriving.

    Args:
        count: takes a share and the bytes that it holds more, or fewer if negative.

    Attributes:
        size: the bytes kept; 0 is none.
        share: in which they count.
    """

    __slots__ = ("_count", "share", "size")

    def __init__(self, count: Callable[[str, int], None]) -> None:
        self._count = count
        self.size = 0
        self.share = ""

    def keep(self, size: int, share: str = "") -> None:
        """Keep this much, in place of all that was kept before; 0 is nothing."""
        if self.size:
            self._count(self.share, -self.size)
        if size:
            self._count(share, size)
        self.size, self.share = size, share


class _Line:
    """The connections that are not read because their share has no room: at least one."""

    __slots__ = ("told", "waiting")

    def __init__(self) -> None:
        #: The oldest first, and the size of the frame of each.
        self.waiting: dict[Owner, int] = {}
        #: The oldest one, if it was told of room and has not come yet.
        self.told: Owner | None = None


class PublishBuffer:
    """Bytes of publishes that all connections together hold.

    *At the bound*, where its share may not hold its frame (`SharedBytes`), a connection is not read,
    whatever it holds. So a client with many connections can have the others of its group wait for room.
    Unfinished frames have no shares, and as many as there may be halve what is free for whole ones.

    *Who goes on.* The connections of a share wait in the order in which they came. There is room again
    when half of what the share may hold is free. Then the oldest one is told, and once it has come, the
    next. One that finds no room any more is the oldest still. So room for a few wakes a few, however many
    wait. A connection may ask by itself, too.

    *Unfinished frames* are those that must arrive in full before it is known whether they wait: large
    commands, and SENDs with long metadata. (A SEND that is known to wait counts as a whole frame while
    it arrives.) By what has arrived of them they may always be half as much as the buffer: a connection
    that is not held back goes on while others fill it. They take nothing of the other half, however many
    there are. They hold nothing that could be released, so of those that do not fit the oldest goes on,
    and the others wait for it: until it ends, or its connection does because the client does not send the
    rest in time. One that has arrived, and waits for room in its share, keeps the others waiting, too.

    Args:
        bytes_max: the most bytes of whole frames, less what has arrived of unfinished ones when one is
            added, its own included; beyond it, connections that would have to hold more are not read.
            None is no bound but that of each connection.
    """

    def __init__(self, bytes_max: int | None = None) -> None:
        self._bytes_max = bytes_max
        self._whole = SharedBytes(bytes_max)
        #: Deliveries that are held take no room of publishes: the first small one of each connection,
        #: and all others.
        self.first_deliveries, self.deliveries = (
            SharedBytes(None if bytes_max is None else bytes_max // 4) for _ in range(2)
        )
        #: By share, of those for which connections wait.
        self._lines: dict[str, _Line] = {}
        #: The share in which each connection waits.
        self._share_of: dict[Owner, str] = {}
        #: No share without one that was told has relief while less than this is free.
        self._relief_bytes = _NEVER
        #: Connections that wait for room for an unfinished frame.
        self._waiting_begun: dict[Owner, None] = {}
        #: Bytes of what has arrived of the unfinished frames.
        self._begun = 0
        #: The same of each, the oldest first.
        self._unfinished: dict[Owner, int] = {}

    @property
    def held_bytes(self) -> int:
        """The bytes held."""
        return self._whole.held_bytes + self._begun

    @property
    def waiting(self) -> int:
        """The number of connections that wait for room."""
        return len(self._share_of) + len(self._waiting_begun)

    @property
    def shares(self) -> int:
        """The number of shares that hold something, or for which connections wait."""
        return len(self._whole.shares | self._lines.keys())

    # Whole frames

    def has_room(self, share: str, size: int) -> bool:
        """Return whether a share may hold one more whole frame."""
        return self._whole.has_room(share, size)

    def count(self, share: str, size: int) -> None:
        """Count this many more bytes of a share's whole frames, or fewer if negative."""
        self._whole.count(share, size)
        if size <= 0:
            self._look_again_at(share)
            self._tell_relieved()

    def move(self, share: str, to: str, size: int) -> bool:
        """Count held bytes in another share, if that may hold them: they wait for another limit now."""
        is_moved = self._whole.move(share, to, size)
        if is_moved and size:
            self._look_again_at(share)
            self._tell_relieved()
        return is_moved

    def when_relieved(self, owner: Owner, share: str, size: int) -> None:
        """Tell this connection once, when a share has relief, for which it has a frame of this size."""
        self.forget(owner)
        self._lines.setdefault(share, _Line()).waiting[owner] = size
        self._share_of[owner] = share
        self._look_again_at(share)

    def _relief(self, share: str, size: int) -> int:
        """Return what must be free for this frame: half of what the share may hold is free then."""
        held = self._whole.of(share)
        return max(3 * held, held + 2 * size) if held else size

    def _has_relief(self, share: str, size: int) -> bool:
        if not self._whole.held_bytes:
            return True
        return self._relief(share, size) <= self._whole.free_bytes

    def _look_again_at(self, share: str) -> None:
        """Look at this share again when as much is free as its oldest connection waits for."""
        line = self._lines.get(share)
        if line is not None and line.told is None:
            oldest = next(iter(line.waiting.values()))
            self._relief_bytes = min(self._relief_bytes, self._relief(share, oldest))

    def _tell_relieved(self) -> None:
        """Tell the oldest connection of each share that has relief, if that may be any."""
        if self._relief_bytes == _NEVER:
            return
        if self._whole.held_bytes and self._whole.free_bytes < self._relief_bytes:
            return
        self._relief_bytes = _NEVER
        for share in tuple(self._lines):
            self._tell_next(share)

    def _tell_next(self, share: str) -> None:
        line = self._lines[share]
        if line.told is not None:
            return
        owner, size = next(iter(line.waiting.items()))
        if self._has_relief(share, size):
            line.told = owner
            owner()
        else:
            self._look_again_at(share)

    # Unfinished frames

    def has_room_for_unfinished(self, owner: Owner, size: int) -> bool:
        """Return whether an unfinished frame may go on, of which this many bytes have arrived."""
        if self._bytes_max is None or self._is_oldest(owner):
            return True
        return 2 * (self._begun - self._unfinished.get(owner, 0) + size) <= self._bytes_max

    def count_unfinished(self, owner: Owner, size: int) -> None:
        """Count what has arrived of an unfinished frame; 0 ends its count."""
        self._begun += size - self._unfinished.get(owner, 0)
        if self._bytes_max is not None:
            self._whole.taken_beside = min(self._begun, self._bytes_max // 2)
        if size:
            self._unfinished[owner] = size
        else:
            self._unfinished.pop(owner, None)
            self._tell_begun()
            self._tell_relieved()

    def when_relieved_of_unfinished(self, owner: Owner) -> None:
        """Tell this connection once, when its unfinished frame may go on."""
        self.forget(owner)
        self._waiting_begun[owner] = None

    def _tell_begun(self) -> None:
        """Tell the connections whose unfinished frames may go on: all of them, or the oldest at most."""
        if self._has_relief_of_unfinished():
            self._tell_to_go_on(tuple(self._waiting_begun))
        elif (oldest := next(iter(self._unfinished))) in self._waiting_begun:
            self._tell_to_go_on((oldest,))

    def _tell_to_go_on(self, owners: tuple[Owner, ...]) -> None:
        for owner in owners:
            del self._waiting_begun[owner]
            owner()

    def _is_oldest(self, owner: Owner) -> bool:
        return next(iter(self._unfinished), owner) == owner

    def _has_relief_of_unfinished(self) -> bool:
        return self._bytes_max is None or 4 * self._begun <= self._bytes_max

    # Both

    def lets_go_on(self, owner: Owner) -> bool:
        """Return whether a connection that was stopped may be read again; if so, it waits no more."""
        share = self._share_of.get(owner)
        if share is not None:
            line = self._lines[share]
            may = self._has_relief(share, line.waiting[owner])
            if not may and line.told is owner:
                line.told = None
                self._look_again_at(share)
        else:
            may = (
                owner not in self._waiting_begun
                or self._is_oldest(owner)
                or self._has_relief_of_unfinished()
            )
        if may:
            self.forget(owner)
        return may

    def forget(self, owner: Owner) -> None:
        """Drop a connection: it goes on, is closed, or has to ask anew; the next one is told."""
        self._waiting_begun.pop(owner, None)
        share = self._share_of.pop(owner, None)
        if share is None:
            return
        line = self._lines[share]
        del line.waiting[owner]
        if line.told is owner:
            line.told = None
        if line.waiting:
            self._tell_next(share)
        else:
            del self._lines[share]

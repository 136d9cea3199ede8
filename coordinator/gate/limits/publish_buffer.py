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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

COMMANDS: Final = "commands"
"""The share of commands that have the broker store something."""

_NEVER: Final = 1 << 62
"""More than is ever free."""

Owner = Callable[[], None]
"""A connection, as the buffer sees it: called when there is room again."""


class _Share:
    """The held frames that wait for one limit, and the connections that are not read because of them."""

    __slots__ = ("held_bytes", "told", "waiting")

    def __init__(self) -> None:
        self.held_bytes = 0
        #: The connections that wait for room, the oldest first, and the size of the frame of each.
        self.waiting: dict[Owner, int] = {}
        #: The oldest one, if it was told of room and has not come yet.
        self.told: Owner | None = None

    def relief_bytes(self, size: int) -> int:
        """Return what must be free for this frame: half of what the share may hold is free then."""
        if not self.held_bytes:
            return size
        return max(3 * self.held_bytes, self.held_bytes + 2 * size)


class PublishBuffer:
    """Bytes of publishes that all connections together hold.

    *Rule.* A share may hold one more frame if it holds no more with it than what is free then. One that
    holds nothing may hold any frame that fits into what is free; any frame fits when nothing is held.

    *Guarantee.* A share takes half of the buffer at most, with any number of connections. Shares that
    want more than there is come to equal parts while their limits let something pass: n of them hold
    n/(n + 1) of the buffer, and the rest is free. Where nothing passes, each keeps what it took when it
    came: 1/2, 1/4, 1/8 and so on. So n shares leave at least (1/2)^n of the buffer to others, as long as
    that is more than a frame: of 512 MiB, six leave 8 MiB. (A share that grew before others holds at most
    what is free and what these hold.)

    *At the bound*, with less free than its frame takes, a connection is not read, whatever it holds.

    *Not guaranteed* is anything within a share: who waits for the same limit takes from the same part,
    and a client with many connections can have the others of its group wait for room. A client that may
    publish to several groups takes from the part of each. Unfinished frames have no shares, and as many
    as there may be halve what is free for whole ones.

    *Who goes on.* The connections of a share wait in the order in which they came. There is room again
    when half of what the share may hold is free. Then the oldest one is told, and once it has come, the
    next. One that finds no room any more is the oldest still. So room for a few wakes a few, however many
    wait. A connection may ask by itself, too.

    Unfinished frames, by what has arrived of them, may always be half as much as the buffer: a connection
    that is not held back goes on while others fill it. They take nothing of the other half, however many
    there are. They hold nothing that could be released, so of those that do not fit the oldest goes on,
    and the others wait for it: one of them always gets on, or its connection ends because the client does
    not send the rest in time.

    Deliveries have an account of their own, of a quarter of the buffer: they take no room of publishes.

    Args:
        bytes_max: the most bytes of whole frames, less what has arrived of unfinished ones when one is
            added, its own included; beyond it, connections that would have to hold more are not read.
            None is no bound but that of each connection.
    """

    def __init__(self, bytes_max: int | None = None) -> None:
        self._bytes_max = bytes_max
        #: Those that hold something, and those that wait.
        self._shares: dict[str, _Share] = {}
        #: The share in which each connection waits.
        self._share_of: dict[Owner, str] = {}
        #: No share without one that was told has relief while less than this is free.
        self._relief_bytes = _NEVER
        #: Connections that wait for room for an unfinished frame.
        self._waiting_begun: dict[Owner, None] = {}
        #: Bytes of whole frames, and of what has arrived of the unfinished ones.
        self._whole = self._begun = 0
        #: What has arrived of each unfinished frame, the oldest first.
        self._unfinished: dict[Owner, int] = {}
        #: Bytes of deliveries that are held.
        self.delivery_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The bytes held."""
        return self._whole + self._begun

    @property
    def waiting(self) -> int:
        """The number of connections that wait for room."""
        return len(self._share_of) + len(self._waiting_begun)

    @property
    def shares(self) -> int:
        """The number of shares that hold something, or for which connections wait."""
        return len(self._shares)

    # Whole frames

    def has_room(self, share: str, size: int) -> bool:
        """Return whether a share may hold one more whole frame."""
        if self._bytes_max is None or not self._whole:
            return True
        free = self._free_bytes(self._bytes_max) - size
        of_share = self._shares.get(share)
        held = 0 if of_share is None else of_share.held_bytes
        return held + size <= free if held else free >= 0

    def count(self, share: str, size: int) -> None:
        """Count this many more bytes of a share's whole frames, or fewer if negative."""
        of_share = self._share(share)
        of_share.held_bytes += size
        self._whole += size
        if size <= 0:
            self._look_again_at(of_share)
            self._tell_relieved()
            self._tidy(share)

    def move(self, share: str, to: str, size: int) -> bool:
        """Count held bytes in another share, if that may hold them: they wait for another limit now."""
        if not size:
            return True
        of_other = self._shares.get(to)
        held = 0 if of_other is None else of_other.held_bytes
        if self._bytes_max is not None and held + size > self._free_bytes(self._bytes_max):
            return False
        self.count(to, size)
        self.count(share, -size)
        return True

    def when_relieved(self, owner: Owner, share: str, size: int) -> None:
        """Tell this connection once, when a share has relief, for which it has a frame of this size."""
        self.forget(owner)
        of_share = self._share(share)
        of_share.waiting[owner] = size
        self._share_of[owner] = share
        self._look_again_at(of_share)

    def _share(self, name: str) -> _Share:
        found = self._shares.get(name)
        if found is None:
            found = self._shares[name] = _Share()
        return found

    def _free_bytes(self, bytes_max: int) -> int:
        return bytes_max - self._whole - min(self._begun, bytes_max // 2)

    def _has_relief(self, share: _Share, size: int) -> bool:
        if self._bytes_max is None or not self._whole:
            return True
        return share.relief_bytes(size) <= self._free_bytes(self._bytes_max)

    def _look_again_at(self, share: _Share) -> None:
        """Look at this share again when as much is free as its oldest connection waits for."""
        if share.waiting and share.told is None:
            oldest = next(iter(share.waiting.values()))
            self._relief_bytes = min(self._relief_bytes, share.relief_bytes(oldest))

    def _tell_relieved(self) -> None:
        """Tell the oldest connection of each share that has relief, if that may be any."""
        if self._relief_bytes == _NEVER or self._bytes_max is None:
            return
        if self._whole and self._free_bytes(self._bytes_max) < self._relief_bytes:
            return
        self._relief_bytes = _NEVER
        for share in tuple(self._shares.values()):
            self._tell_next(share)

    def _tell_next(self, share: _Share) -> None:
        if not share.waiting or share.told is not None:
            return
        owner, size = next(iter(share.waiting.items()))
        if self._has_relief(share, size):
            share.told = owner
            owner()
        else:
            self._look_again_at(share)

    def _tidy(self, name: str) -> None:
        share = self._shares[name]
        if not share.held_bytes and not share.waiting and share.told is None:
            del self._shares[name]

    # Unfinished frames

    def has_room_for_unfinished(self, owner: Owner, size: int) -> bool:
        """Return whether an unfinished frame may go on, of which this many bytes have arrived."""
        if self._bytes_max is None or self._is_oldest(owner):
            return True
        return 2 * (self._begun - self._unfinished.get(owner, 0) + size) <= self._bytes_max

    def count_unfinished(self, owner: Owner, size: int) -> None:
        """Count what has arrived of an unfinished frame; 0 ends its count."""
        self._begun += size - self._unfinished.get(owner, 0)
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
        name = self._share_of.get(owner)
        if name is not None:
            share = self._shares[name]
            may = self._has_relief(share, share.waiting[owner])
            if not may and share.told is owner:
                share.told = None
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
        name = self._share_of.pop(owner, None)
        if name is None:
            return
        share = self._shares[name]
        del share.waiting[owner]
        if share.told is owner:
            share.told = None
        self._tell_next(share)
        self._tidy(name)

    # Deliveries

    def has_room_for_delivery(self, size: int) -> bool:
        """Return whether this many more bytes of a delivery may be held; any fits if none is."""
        if self._bytes_max is None or not self.delivery_bytes:
            return True
        return 4 * (self.delivery_bytes + size) <= self._bytes_max

    def count_delivery(self, size: int) -> None:
        """Count this many more bytes of deliveries, or fewer if negative."""
        self.delivery_bytes += size

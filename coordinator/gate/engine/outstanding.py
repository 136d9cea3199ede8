"""Requests under way on one connection: match the broker's answers to them.

The client chooses request ids. With two requests of one id the gate could match an answer to the wrong
one, so an id that is under way may not be used again. C++ clients number the requests of their lookup
service (LOOKUP, PARTITIONED_METADATA, GET_TOPICS_OF_NAMESPACE, GET_SCHEMA) apart from all others, so
these are a class of their own and an id may be under way once in each class.

Each kind of request has an answer of its own. ERROR answers any request but LOOKUP and
PARTITIONED_METADATA, so those two are not kept at all. Only an ERROR to an id that is under way in both
classes is ambiguous: it is kept until the other request is answered, which tells which one failed.

At most `REQUESTS_MAX` requests are under way, unanswered ones included; the connection of a client with
more is closed.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from coordinator.gate.protocol.frames import FrameFault, MalformedFrame

REQUESTS_MAX: Final = 20_000
"""Requests of one class that may be under way on a connection."""

Request = TypeVar("Request")
"""The subject of a request."""


class OutstandingRequests(Generic[Request]):
    """The requests of one connection that the broker has not answered."""

    __slots__ = ("_errors", "_lookups", "_requests")

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}
        self._lookups: set[int] = set()
        #: Ids under way in both classes, for which one ERROR came.
        self._errors: set[int] = set()

    def __len__(self) -> int:
        return len(self._requests) + len(self._lookups)

    def open(self, request_id: int, request: Request) -> None:
        """Keep a request that the client sends.

        Raises:
            MalformedFrame: the id is under way, or too many are.
        """
        _check(request_id, self._requests)
        self._requests[request_id] = request

    def open_lookup(self, request_id: int) -> None:
        """Keep a request of the lookup service that ERROR may answer.

        Raises:
            MalformedFrame: as ``open``.
        """
        _check(request_id, self._lookups)
        self._lookups.add(request_id)

    def succeeded(self, request_id: int) -> Request | None:
        """Take an answer other than ERROR; return its request if it is known."""
        if request_id in self._errors:  # then the ERROR was for the lookup
            self._errors.discard(request_id)
            self._lookups.discard(request_id)
        return self._requests.pop(request_id, None)

    def lookup_succeeded(self, request_id: int) -> Request | None:
        """Take an answer of the lookup service; return the failed request if it tells which one."""
        self._lookups.discard(request_id)
        if request_id not in self._errors:
            return None
        self._errors.discard(request_id)
        return self._requests.pop(request_id, None)

    def failed(self, request_id: int) -> Request | None:
        """Take an ERROR; return the failed request if it is clear which one."""
        if request_id not in self._lookups:
            return self._requests.pop(request_id, None)
        if request_id not in self._requests:
            self._lookups.discard(request_id)
            return None
        if request_id not in self._errors:
            self._errors.add(request_id)
            return None
        self._errors.discard(request_id)  # both failed
        self._lookups.discard(request_id)
        return self._requests.pop(request_id, None)


def _check(request_id: int, under_way: dict[int, Request] | set[int]) -> None:
    if request_id in under_way:
        raise MalformedFrame(FrameFault.REQUEST_IN_USE, f"request {request_id}")
    if len(under_way) >= REQUESTS_MAX:
        raise MalformedFrame(FrameFault.REQUESTS, f"more than {REQUESTS_MAX}")

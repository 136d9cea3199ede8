"""The deadlines of one HTTP connection: decided here, told the time; `protocol` closes the connection.

A connection waits for a head, takes a body, or is answered, and each has a deadline:

* *head*: whole within ``request_s`` of the connection, and later of its first byte, whatever that is. The
  server's own idle bound limits the wait for that byte between two requests;
* *body*: whole within ``request_s`` of its head. The rest of a body after its answer is read for
  `LINGER_S`, so that the answer arrives, and no longer;
* *answer*: of the bytes that the caller does not take at once, `ANSWER_BYTES` in every ``request_s``,
  by its machine's acknowledgements: while the server goes on writing, its own buffer stays full.

So a caller holds a connection only while it sends or takes data, and single bytes now and then are not
enough.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

ANSWER_BYTES: Final = 64 * 1024
LINGER_S: Final = 2.0


class Overdue(Enum):
    """The part of an exchange that took too long."""

    HEAD = "head deadline"
    BODY = "body deadline"
    ANSWER = "answer not taken"
    LINGER = "body after its answer"


class CallerDeadlines:
    """The deadlines of one connection.

    Args:
        request_s: for a head, and for a body.
        now_s: the time of the connection; monotonic, as all times here.
    """

    def __init__(self, request_s: float, now_s: float) -> None:
        self._request_s = request_s
        #: When the awaited head began; None between two requests, or while there is none.
        self._head_since_s: float | None = now_s
        #: When the present body began; None while there is none.
        self._body_since_s: float | None = None
        #: When the answer was sent to a request whose body has not ended.
        self._lingers_since_s: float | None = None
        #: The time, and the unsent and acknowledged bytes, at the last progress; None while all is sent.
        self._progress: tuple[float, int, int] | None = None

    def received(self, now_s: float) -> None:
        """Note bytes that belong to no body; a head begins, if none did."""
        if self._head_since_s is None:
            self._head_since_s = now_s

    def head_taken(self, now_s: float) -> None:
        """Note a whole head; its body begins, if there is one."""
        self._head_since_s = None
        self._body_since_s = now_s
        self._lingers_since_s = None

    def body_ended(self) -> None:
        """Note the end of a request."""
        self._body_since_s = self._lingers_since_s = None

    def answered(self, now_s: float) -> None:
        """Note the answer to the last request; its body may not have ended, and a head may have begun."""
        if self._body_since_s is not None:
            self._lingers_since_s = now_s
        if self._head_since_s is not None:
            self._head_since_s = now_s

    def overdue(
        self, now_s: float, *, answers: bool, unsent: int, acknowledged: int = 0
    ) -> Overdue | None:
        """Return the part that has exceeded its deadline; None if there is none.

        Args:
            now_s: the time.
            answers: whether it owes an answer; while it does, the next head is not late.
            unsent: bytes of answers that the caller has not taken.
            acknowledged: bytes that its machine has; 0 where that is not counted.
        """
        if self._answer_is_late(now_s, unsent, acknowledged):
            return Overdue.ANSWER
        if self._lingers_since_s is not None and now_s - self._lingers_since_s > LINGER_S:
            return Overdue.LINGER
        if self._body_since_s is not None:
            return Overdue.BODY if now_s - self._body_since_s > self._request_s else None
        return Overdue.HEAD if not answers and self._head_is_late(now_s) else None

    def _head_is_late(self, now_s: float) -> bool:
        return self._head_since_s is not None and now_s - self._head_since_s > self._request_s

    def _answer_is_late(self, now_s: float, unsent: int, acknowledged: int) -> bool:
        if not unsent:
            self._progress = None
            return False
        since_s, unsent_before, acknowledged_before = self._progress or (
            now_s,
            unsent,
            acknowledged,
        )
        taken = max(unsent_before - unsent, acknowledged - acknowledged_before)
        if self._progress is None or taken >= ANSWER_BYTES:
            self._progress = now_s, unsent, acknowledged
            return False
        return now_s - since_s > self._request_s

"""Lists in pages by name.

A page has at most as many entries as are asked for, and about `MAX_ROWS` rows (some entries have one per
broker). It is made on the coordinator's loop, with turns for its rounds in between, but written as JSON
in one go, which other requests wait for. Where there is more, a ``Link`` header with ``rel="next"``
(RFC 8288) names the next page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, Query, Request, Response

Entry = TypeVar("Entry")

MAX_PAGE = 500
"""Groups in one answer."""

MAX_ROWS = 2_000
"""Rows after which a page ends with its present entry."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page that a request asks for.

    Args:
        request: the request.
        response: its response, which names the next page.
        limit: entries in the answer, at most.
        after: only entries whose name comes after this one.
    """

    request: Request
    response: Response
    limit: int
    after: str

    def names(self, known: Iterable[str]) -> list[str]:
        """Return the names on the page, as far as its rows do not end it sooner."""
        return sorted(name for name in known if name > self.after)[: self.limit]

    async def of(
        self, known: Iterable[str], make: Callable[[str], tuple[Entry, int] | None], **further: str
    ) -> list[Entry]:
        """Return the entries of the page, and name the next one.

        Args:
            known: all names.
            make: makes the entry of a name, with the number of its rows; None if it is gone.
            further: what the query for the next page says beside its place.
        """
        known = list(known)
        entries: list[Entry] = []
        rows, last = 0, self.after
        for name in self.names(known):
            if rows >= MAX_ROWS:
                break
            if (made := make(name)) is not None:
                entries.append(made[0])
                rows += made[1]
            last = name
            await asyncio.sleep(0)  # rounds are closed on this loop, too
        if any(name > last for name in known):
            query = urlencode({**further, "limit": self.limit, "after": last})
            self.response.headers["Link"] = f'<{self.request.url.path}?{query}>; rel="next"'
        return entries


async def _page(
    request: Request,
    response: Response,
    limit: Annotated[
        int, Query(ge=1, le=MAX_PAGE, description="groups in the answer, at most")
    ] = MAX_PAGE,
    after: Annotated[str, Query(description="only groups whose name comes after this one")] = "",
) -> Page:
    return Page(request, response, limit, after)


PageOfGroups = Annotated[Page, Depends(_page)]

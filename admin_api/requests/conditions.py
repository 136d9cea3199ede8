"""``If-Match`` and ``If-None-Match``: make a change only if no other came first (RFC 9110, 13.1).

A group's entity tag is its version, which is one of the whole store: it never returns, also not when a
group is deleted and created again. The tag stands for the definition, not for what is attached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from admin_api.errors import NO_SUCH_GROUP, ApiError
from coordinator.ports import Versioned

_TAGS = re.compile(r'\s*(?:W/)?"[^"]*"\s*(?:,\s*(?:W/)?"[^"]*"\s*)*')
_TAG = re.compile(r'(?:W/)?"[^"]*"')


def etag_of(version: int) -> str:
    """Return the entity tag of a definition."""
    return f'"{version:x}"'


@dataclass(frozen=True, slots=True)
class Precondition:
    """The condition of a change.

    Args:
        tags: the group must exist with one of these tags; None asks for none.
        exists: whether the group must exist; None leaves it open.
    """

    tags: frozenset[str] | None = None
    exists: bool | None = None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self:
        """Read a request's condition.

        Raises:
            ApiError: 400 when it cannot be understood, as a condition must not be overlooked.
        """
        match, none_match = headers.get("if-match"), headers.get("if-none-match")
        if match is not None and none_match is not None:
            raise ApiError(400, "If-Match and If-None-Match together make no sense; send one")
        if none_match is not None:
            if none_match.strip() != "*":
                raise ApiError(400, "If-None-Match must be * (create only) with a change")
            return cls(exists=False)
        if match is None:
            return cls()
        if match.strip() == "*":
            return cls(exists=True)
        if not _TAGS.fullmatch(match):
            raise ApiError(400, "If-Match must be * or entity tags in quotes, as ETag shows them")
        return cls(tags=frozenset(_TAG.findall(match)), exists=True)

    def check(self, current: Versioned | None) -> None:
        """Accept the present version if the condition allows it.

        Raises:
            ApiError: 412, with the present tag.
        """
        if current is None:
            if self.exists:
                raise ApiError(412, NO_SUCH_GROUP)
            return
        headers = {"ETag": etag_of(current.version)}
        if self.exists is False:
            raise ApiError(412, "ResourceGroup already exists", headers)
        if self.tags is not None and headers["ETag"] not in self.tags:
            reason = "ResourceGroup was changed since you read it; read it again"
            raise ApiError(412, reason, headers)

"""The schemas and properties that a broker is known to have, because it has accepted them before."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

CONTENTS_MAX: Final = 10_000
"""The most that are remembered; what was not used for longest is charged anew when it comes again."""


class KnownContents:
    """Keys of contents (protocol/contents.py)."""

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, None] = OrderedDict()

    def has(self, key: bytes) -> bool:
        """Return whether a content was accepted before."""
        if key not in self._keys:
            return False
        self._keys.move_to_end(key)
        return True

    def add(self, key: bytes) -> None:
        """Remember a content that a broker has accepted."""
        self._keys[key] = None
        if len(self._keys) > CONTENTS_MAX:
            self._keys.popitem(last=False)

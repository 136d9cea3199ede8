"""The refusal of input, or of a request, of which nothing can be made."""

from __future__ import annotations

from typing import Final

INSTALL: Final = (
    "pip install '.[spark]' in the repository of pulsar-quota, or 'pulsar-quota[spark]' where it is "
    "installed"
)
"""The remedy where Spark, or a library that draws its pages, is missing."""


class RefusedInput(ValueError):
    """Nothing can be made of this; the message names it, and says why and what to write."""

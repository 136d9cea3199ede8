"""The refusal of input of which nothing can be made."""

from __future__ import annotations

from typing import Final

INSTALL: Final = (
    "pip install '.[spark]' in the repository of pulsar-quota, or 'pulsar-quota[spark]' where it is "
    "installed"
)
"""The remedy where Spark, or a library that draws its pages, is missing."""


class RefusedInput(ValueError):
    """Nothing can be made of this input; the message says why and what to do."""

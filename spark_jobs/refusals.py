"""The refusal of input of which nothing can be made."""

from __future__ import annotations


class RefusedInput(ValueError):
    """Nothing can be made of this input; the message says why and what to do."""

"""The refusal of input, or of a request, of which nothing can be made."""

from __future__ import annotations


class RefusedInput(ValueError):
    """Nothing can be made of this; the message names it, and says why and what to write."""

"""Tokens that prove a role."""

from __future__ import annotations

from typing import Protocol


class TokenRefused(Exception):
    """The token is not valid; the text gives the reason, and may be shown to its sender."""


class Verifier(Protocol):
    """Returns the role of a token.

    The implementation needs a library of cryptography, of 8 MB: it is loaded only if tokens are checked.
    """

    def role_of(self, token: str) -> str:
        """Return the role of a valid token.

        Raises:
            TokenRefused: the token is not valid.
        """

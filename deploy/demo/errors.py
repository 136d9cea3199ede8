"""The errors of a demo, beside those of its cluster."""

from __future__ import annotations


class DemoError(Exception):
    """The story could not be told to its end; the text says why."""


class WrongDemoUse(Exception):
    """The request makes no sense as it stands; nothing was started."""

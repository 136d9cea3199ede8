"""Failures of a command: one line for the reader, and an exit code.

``CommandFailed`` exits with 1: the request was valid and could not be carried out. ``WrongUse`` exits
with 2: the same request will never work, whatever the state of the cluster.
"""

from __future__ import annotations


class CommandFailed(Exception):
    """The command could not do its work; the message is for the user."""

    exit_code = 1


class WrongUse(CommandFailed):
    """The request is invalid as it stands."""

    exit_code = 2

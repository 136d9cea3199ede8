"""How a command ends other than well: one line for the reader, and an exit code.

``CommandFailed`` is 1: the request was right and could not be carried out. ``WrongUse`` is 2: the same
request will never work, whatever the state of the cluster.
"""

from __future__ import annotations


class CommandFailed(Exception):
    """The command could not do what was asked; the message is for the person who asked."""

    exit_code = 1


class WrongUse(CommandFailed):
    """The request makes no sense as it stands."""

    exit_code = 2

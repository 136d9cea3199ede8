"""Messages and bytes as the API tells them, with names in place of their order."""

from __future__ import annotations

from typing import Annotated

from coordinator.core.answer import Limit, Permille, Wire, answer


@answer
class UnitsView:
    """Messages and bytes; -1 = not limited."""

    messages: Limit
    bytes: Limit


@answer
class UnitSharesView:
    """Parts of messages and of bytes, from 0 to 1."""

    messages: Permille
    bytes: Permille


Units = Annotated[
    tuple[int | None, int | None],
    Wire(lambda both: UnitsView(*both), lambda view: (view.messages, view.bytes), UnitsView),
]
UnitShares = Annotated[
    tuple[int, int],
    Wire(
        lambda both: UnitSharesView(*both), lambda view: (view.messages, view.bytes), UnitSharesView
    ),
]

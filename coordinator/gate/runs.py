"""Runs of frames: many of one producer or consumer, that one read brought and one decision lets pass.

Finding them is the work of ``_runs.c``, which is built at installation where there is a compiler. Where
it was not, none are found and every frame is decided on its own; nothing else is different.

Where delayed messages count apart, SENDs that are delayed are no part of a run: *prompt* runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.gate._runs import Run

RunHandler = Callable[["Run"], bool]
"""Lets a run pass and counts it; False has done nothing, and each frame is decided on its own."""


def _find_none(_data: bytes, _pos: int, _frame_max: int, /) -> Run | None:
    return None


try:
    from coordinator.gate._runs import scan, scan_prompt
except ImportError:
    find_run = find_prompt_run = _find_none
else:
    find_run, find_prompt_run = scan, scan_prompt

CAN_FIND_RUNS: Final = find_run is not _find_none
"""Whether the helper was built."""

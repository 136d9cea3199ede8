"""Runs of frames: many of one producer or consumer, received in one read and decided at once.

``_runs.c`` finds them; it is built at installation where there is a compiler. Without it no run is found
and every frame is decided on its own; nothing else differs.

A frame that does not pass with its run can be read by the helper, too: a hundred times as fast as by
Python where it has many properties.

Where delayed messages count apart, delayed SENDs are no part of a run: *prompt* runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.gate.protocol._runs import Run

RunHandler = Callable[["Run"], bool]
"""Lets a run pass and counts it; False has no effect, and each frame is decided on its own."""


def _find_none(_data: bytes, _pos: int, _frame_max: int, /) -> Run | None:
    return None


try:
    from coordinator.gate.protocol._runs import scan, scan_one, scan_prompt, scan_prompt_one
except ImportError:
    find_run = find_prompt_run = find_frame = find_prompt_frame = _find_none
else:
    find_run, find_prompt_run = scan, scan_prompt
    find_frame, find_prompt_frame = scan_one, scan_prompt_one

CAN_FIND_RUNS: Final = find_run is not _find_none
"""Whether the helper was built."""

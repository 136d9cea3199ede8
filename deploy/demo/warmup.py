"""Load before the story, so that the figures show the coordinator and not a Java that warms up.

A Java that has just started interprets what it runs and compiles it meanwhile: for its first seconds of
load a broker takes several times the processor time that it takes later, and stands still for up to
0.2 s. The load goes through the same gates, to a namespace that no group limits, and ends before
the story begins; no sample is taken of it.
"""

from __future__ import annotations

import time

from deploy.demo.system import System
from deploy.demo.waiting import wait_for

_RATE = 2_500
_LENGTH_S = 12.0
#: After it, so that the brokers have forgotten the last producer when the first of the story comes.
_PAUSE_S = 2.0


def warm_up(system: System) -> None:
    """Put load on every broker for a while.

    Raises:
        DemoError: a process died.
    """
    topics = system.make_topics("warm-up")
    names = {broker: f"warm-up-{broker}" for broker in topics}
    for broker, topic in topics.items():
        system.start_load(names[broker], topic, _RATE)
    wait_for(time.monotonic() + _LENGTH_S, system.programs.check)
    for name in names.values():
        system.programs.end(name)
    wait_for(time.monotonic() + _PAUSE_S, system.programs.check)

"""Load before a broker's part in the story: figures shall show the coordinator, not a Java that is cold.

A Java that has just started interprets what it runs and compiles it meanwhile: for its first seconds of
load a broker takes several times the processor time that it takes later, and stands still for up to
0.2 s. The load goes through the same gates, to a namespace that no group limits, and ends before
the broker is given a topic of the story; no sample is taken of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from deploy.demo.system import System
from deploy.local.waiting import wait_for

_RATE = 2_500
_LENGTH_S = 12.0
#: After it, so that the brokers have forgotten the last producer when the first of the story comes.
_PAUSE_S = 2.0


class WarmUp:
    """Puts load on brokers for a while.

    Args:
        system: set up.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._topics = system.make_topics("warm-up")

    def all_brokers(self) -> None:
        """Warm every broker up.

        Raises:
            LocalClusterError: a process died.
        """
        self._put_load_on(self._topics)

    def again(self, broker: str) -> None:
        """Warm a broker up that has come back: its Java is a new one.

        Raises:
            LocalClusterError: a process died, or the broker does not take its topic back.
        """
        topic = self._topics[broker]
        self._system.topics.move(topic, self._system.brokers[broker])
        self._put_load_on({broker: topic})

    def _put_load_on(self, topics: Mapping[str, str]) -> None:
        system = self._system
        names = {broker: f"warm-up-{broker}" for broker in topics}
        for broker, topic in topics.items():
            system.start_load(names[broker], topic, _RATE)
        wait_for(time.monotonic() + _LENGTH_S, system.programs.check)
        for name in names.values():
            system.programs.end(name)
        wait_for(time.monotonic() + _PAUSE_S, system.programs.check)

"""One run: mishaps one after the other on a testbed under load, and the history that it leaves.

Each mishap has time to be over before the next one begins: until all is as before by the checker's own
rule, or for as long as it may take, which is then a finding. So every recovery is seen for itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.history import History, Mishap
from deploy.chaos.checker.recovery import LAST_S
from deploy.chaos.checker.recovery_window import recovered_after
from deploy.chaos.mishaps import Occasion
from deploy.chaos.schedule import Planned
from deploy.chaos.testbed import LIMIT, Testbed
from deploy.chaos.watching import SidecarWatcher
from deploy.demo.counters import CounterSampler
from deploy.local.errors import LocalClusterError
from deploy.local.waiting import wait_for

_START_WITHIN_S = 60.0
_POLL_S = 0.5
#: Between a recovery and the next mishap, so that one does not hide what is left of the other.
_PAUSE_S = 2.0
#: After the start: some intervals of the brokers' own limiters.
_START_PAUSE_S = 5.0
#: After the last mishap: what the end is judged by, and the last samples.
_CALM_S = LAST_S + 3.0
#: Of what was counted earlier, so that no window begins before the first sample.
_BEFORE_S = 1.0


class ChaosRun:
    """One run on a testbed that has load.

    Args:
        testbed: entered.
        tell: called with a line for people whenever something happens.
    """

    def __init__(self, testbed: Testbed, tell: Callable[[str], None]) -> None:
        self._testbed = testbed
        self._tell = tell
        self._sampler = CounterSampler(testbed.web_urls, list(testbed.topic_of.values()))
        self._watcher = SidecarWatcher(testbed)
        self._mishaps: list[Mishap] = []

    def play(self, planned: Sequence[Planned], until_s: float, every_s: float = 0.0) -> History:
        """Let mishaps happen, none of them later than this moment; return the history.

        Args:
            planned: in this order.
            until_s: none begins later, in seconds of CLOCK_MONOTONIC.
            every_s: from the beginning of one to that of the next, if it is over by then.

        Raises:
            LocalClusterError: a client or an onlooker died, or a server could not be started again.
        """
        with self._sampler, self._watcher:
            settled_s = self._at_the_limit()
            for number, each in enumerate(planned, start=1):
                if time.monotonic() > until_s:
                    self._tell(f"time is up, {len(planned) - number + 1} mishaps are left out")
                    break
                began_s = time.monotonic()
                self._happen(number, each, settled_s)
                wait_for(began_s + every_s, self._attend)
            wait_for(time.monotonic() + _CALM_S, self._attend)
            ended_s = time.monotonic() - 1.0  # a sample lies behind it
            unsettled = self._testbed.unsettled()
            not_recording = self._testbed.not_recording()
            self._tell("the load ends; all that was stored and delivered is read")
            self._testbed.end_publishing()
        self._testbed.end_consuming()
        return replace(
            self._seen(settled_s, ended_s),
            topics=self._testbed.diaries(),
            unsettled=unsettled,
            not_recording=not_recording,
        )

    def _happen(self, number: int, planned: Planned, settled_s: float) -> None:
        kind = planned.kind
        began_s = time.monotonic()
        kind.do(self._testbed, planned.target, planned.seconds)
        occasion = Occasion(planned.target, planned.seconds, began_s, time.monotonic())
        testbed = self._testbed
        mishap = kind.happened(
            f"{number}. {planned}", occasion, testbed.policy, testbed.brokers, testbed.path
        )
        self._mishaps.append(mishap)
        after_s = self._recovered(mishap)
        outcome = "NOT RECOVERED" if after_s is None else f"as before after {after_s:4.1f} s"
        self._tell(f"{began_s - settled_s:6.1f} s  {mishap.what}: {outcome}")
        wait_for(time.monotonic() + _PAUSE_S, self._attend)

    def _at_the_limit(self) -> float:
        """Wait until the load runs at the limit, and still does a little later; return that moment.

        Brokers with limiters of their own let the whole record pass at first, which looks like the limit.
        """
        for _ in range(2):
            start = Mishap("the start", time.monotonic(), time.monotonic(), _START_WITHIN_S)
            self._recovered(start)
            wait_for(time.monotonic() + _START_PAUSE_S, self._attend)
        return time.monotonic()

    def _recovered(self, mishap: Mishap) -> float | None:
        deadline_s = mishap.ended_s + mishap.recovery_s
        while True:
            now_s = time.monotonic()
            recent = self._seen(mishap.began_s, now_s)
            after_s = recovered_after(recent, Counted(recent), mishap)
            if after_s is not None or now_s > deadline_s + _POLL_S:
                return after_s
            self._attend()
            time.sleep(_POLL_S)

    def _attend(self) -> None:
        """See that the clients run, and that brokers and sidecars are looked at."""
        self._testbed.check()
        if not self._sampler.alive:
            raise LocalClusterError("The brokers' counters are no longer sampled.")
        if not self._watcher.alive:
            raise LocalClusterError("The sidecars are no longer asked.")

    def _seen(self, from_s: float, until_s: float) -> History:
        """Return the counts and answers of this time; the messages are known at the end only."""
        since_s = from_s - _BEFORE_S
        return History(
            limit=LIMIT,
            policy=self._testbed.policy,
            burst_s=self._testbed.burst_s,
            settled_s=from_s,
            ended_s=until_s,
            topics=(),
            samples=[sample for sample in self._sampler.samples if sample.sent_s >= since_s],
            misses=[miss for miss in self._sampler.misses if miss.at_s >= since_s],
            sweeps=[
                sweep
                for sweep in self._watcher.sweeps
                if min(word.asked_s for word in sweep.values()) >= since_s
            ],
            mishaps=tuple(self._mishaps),
            footprints=tuple(self._watcher.footprints),
        )

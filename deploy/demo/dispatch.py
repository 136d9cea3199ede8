"""The last scene: a dispatch limit, shared by brokers that each have a backlog to send.

It follows the acts on the same cluster. Publishing has ended, so that the figures are of dispatch alone:
a group of its own has a limit, each broker a topic with a backlog, and a consumer of each starts at the
same time and takes all that it gets. The scene is over when all backlogs are drained; the figures are of
the time in which every broker still has something to send.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from deploy.demo.counters import SENT, CounterSampler
from deploy.demo.receipts import events
from deploy.demo.recording import DispatchRecording, Sample
from deploy.demo.system import System
from deploy.local.waiting import wait_until

LIMIT: Final = 600
_BACKLOG: Final = 6_000
"""Of each broker, in messages: 30 s at its third of the limit."""

_SHOWN_EVERY_S: Final = 2.0


class DispatchScene:
    """Plays it once.

    Args:
        system: that can limit dispatch; no load runs.
        show: takes a line for people, now and then.
    """

    def __init__(self, system: System, show: Callable[[str], None]) -> None:
        self._system = system
        self._show = show
        self._shown_s = 0.0

    def play(self) -> DispatchRecording:
        """Fill the backlogs, drain them under the limit, and return what was recorded.

        Raises:
            LocalClusterError: a process died, or something did not come to pass.
        """
        system = self._system
        topics = system.limit_dispatch(LIMIT)
        self._show(f"{system.name}: dispatch of three backlogs, limit {LIMIT:,}/s")
        self._run_all(topics, "fill", system.programs.check)
        web_urls = {name: broker.web_url for name, broker in system.brokers.items()}
        with CounterSampler(web_urls, list(topics.values()), counting=SENT) as sampler:
            known: dict[str, float] = {}

            def attend() -> None:
                system.programs.check()
                self._note(sampler, topics, known)

            drained = self._run_all(topics, "drain", attend)
            return DispatchRecording(
                samples=sampler.samples,
                misses=sampler.misses,
                limit=LIMIT,
                known_s=max(known.values()),
                ended_s=min(line["at_s"] for line in drained),
                missing=_BACKLOG * len(topics) - sum(line["messages"] for line in drained),
            )

    def _run_all(
        self, topics: dict[str, str], mode: str, attend: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Run a program for each topic, and return their last words."""
        system = self._system
        names = {broker: f"{mode}-{broker}" for broker in topics}
        for broker, topic in topics.items():
            command = [*system.client_program("deploy.demo.backlog"), "--topic", topic]
            system.programs.start(names[broker], [*command, f"--{mode}", str(_BACKLOG)])
        logs = [system.programs.log_file(name) for name in names.values()]
        wait_until(lambda: all(map(_last_word, logs)), f"Not all have done: {mode}", attend)
        for name in names.values():
            system.programs.end(name)
        return [_last_word(log) for log in logs]

    def _note(
        self, sampler: CounterSampler, topics: dict[str, str], known: dict[str, float]
    ) -> None:
        latest = {broker: sampler.latest(topic) for broker, topic in topics.items()}
        for broker, sample in latest.items():
            if sample is not None and sample.clients:
                known.setdefault(broker, sample.at_s)
        if known and time.monotonic() - self._shown_s >= _SHOWN_EVERY_S:
            self._shown_s = time.monotonic()
            rates = _rates(sampler.samples, latest)
            if rates:
                elapsed_s = time.monotonic() - min(known.values())
                self._show(f"t={elapsed_s:.0f} s  dispatch  {rates}")


def _rates(samples: list[Sample], latest: dict[str, Sample | None]) -> str:
    """Return the messages per second of each broker in the last seconds; empty before that is known."""
    rates = []
    for broker, last in latest.items():
        older = [
            sample
            for sample in samples
            if last is not None
            and sample.topic == last.topic
            and sample.at_s <= last.at_s - 2 * _SHOWN_EVERY_S
        ]
        if last is None or not older:
            continue
        rate = (last.messages - older[-1].messages) / (last.at_s - older[-1].at_s)
        rates.append(f"{broker} {rate:,.0f}/s")
    return "  ".join(rates)


def _last_word(log: Path) -> dict[str, Any]:
    """Return the one event that a program tells when it has done its work; empty before."""
    return next(events(log), {})

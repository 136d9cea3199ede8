"""Sampling the brokers' own message counters, five times a second for each topic by default.

One thread for each topic, so that a broker that is slow or dead delays no other broker's samples. The
broker that served the topic last is asked; once it no longer does (another status, or no answer) all are
asked each time until one serves it. Redirects are not followed: a broker that passes a question on
would answer with another broker's count, at an unknown time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import httpx

from deploy.background import Background
from deploy.demo.recording import SAMPLED_EVERY_S, Miss, Sample

#: A broker that is being killed or started may take a connection and never answer it.
_TIMEOUT_S = 0.5
#: One sample may be missed: that alone does not mean that no broker serves the topic.
_FRESH_S = 1.0
_OK = 200


def _published(stats: Mapping[str, Any]) -> tuple[int, int]:
    return stats["msgInCounter"], len(stats["publishers"])


def _sent(stats: Mapping[str, Any]) -> tuple[int, int]:
    subscriptions = stats["subscriptions"].values()
    return stats["msgOutCounter"], sum(len(each["consumers"]) for each in subscriptions)


Counting = Callable[[Mapping[str, Any]], tuple[int, int]]
"""Reads the messages and the clients in a broker's statistics of a topic."""

PUBLISHED: Final[Counting] = _published
SENT: Final[Counting] = _sent


class CounterSampler(Background):
    """Samples topics while it is entered as a context; what it has seen can be read at any time.

    Args:
        web_urls: the admin REST of each broker, by name.
        topics: full names.
        every_s: the time between two samples of a topic.
        counting: which of its counters.
    """

    def __init__(
        self,
        web_urls: Mapping[str, str],
        topics: Sequence[str],
        every_s: float = SAMPLED_EVERY_S,
        counting: Counting = PUBLISHED,
    ) -> None:
        super().__init__(
            {
                f"counters of {topic}": partial(self._follow, topic, every_s * number / len(topics))
                for number, topic in enumerate(topics)
            }
        )
        self._every_s = every_s
        self._counting = counting
        self._web_urls = dict(web_urls)
        # Appended to by one thread each and read by others: a list's append is atomic.
        self._samples: dict[str, list[Sample]] = {topic: [] for topic in topics}
        self._misses: dict[str, list[Miss]] = {topic: [] for topic in topics}

    @property
    def samples(self) -> list[Sample]:
        """All samples so far, for each topic in the order of their arrival."""
        return [sample for of_topic in self._samples.values() for sample in tuple(of_topic)]

    @property
    def misses(self) -> list[Miss]:
        """All misses so far, for each topic in order."""
        return [miss for of_topic in self._misses.values() for miss in tuple(of_topic)]

    def latest(self, topic: str) -> Sample | None:
        """Return the topic's last sample, unless it is too old to say who serves the topic now."""
        samples = self._samples[topic]
        recent = samples and samples[-1].at_s > time.monotonic() - _FRESH_S
        return samples[-1] if recent else None

    def _follow(self, topic: str, delay_s: float) -> None:
        owner: str | None = None
        due_s = time.monotonic() + delay_s
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as client:
            while not self._stop.wait(max(0.0, due_s - time.monotonic())):
                asked = [owner] if owner else self._web_urls
                owner = next((name for name in asked if self._sample(client, topic, name)), None)
                # A sample that came late is not caught up with: two in a row tell no more than one.
                due_s = max(due_s + self._every_s, time.monotonic())

    def _sample(self, client: httpx.Client, topic: str, broker: str) -> bool:
        """Ask one broker; return whether it serves the topic."""
        url = f"{self._web_urls[broker]}/admin/v2/{topic.replace('://', '/')}/stats"
        sent_s = time.monotonic()
        try:
            answer = client.get(url)
        except httpx.TransportError:
            answer = None
        answered_s = time.monotonic()
        if answer is None or answer.status_code != _OK:
            self._misses[topic].append(Miss(topic, broker, (sent_s + answered_s) / 2))
            return False
        messages, clients = self._counting(answer.json())
        self._samples[topic].append(
            Sample(
                topic=topic,
                broker=broker,
                sent_s=sent_s,
                answered_s=answered_s,
                messages=messages,
                clients=clients,
            )
        )
        return True

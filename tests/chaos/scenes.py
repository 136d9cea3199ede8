"""A history without fault, for tests to plant one in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from deploy.chaos.checker.history import (
    Delivery,
    Footprint,
    History,
    Mishap,
    Sent,
    TopicMessages,
    Word,
)
from tests.demo.scenes import PERIOD_S, Rates, samples

LIMIT = 600
BROKERS = ("broker-1", "broker-2", "broker-3")
SHARE = LIMIT // len(BROKERS)
UNTIL_S = 60.0
MESSAGES = 200
RECEIPT_AFTER_S = 0.5

FAIR: Mapping[str, Rates] = {broker: [(0.0, SHARE)] for broker in BROKERS}


def sent(count: int = MESSAGES) -> list[Sent]:
    """Ten messages a second, each with a receipt half a second later."""
    return [Sent(n, n / 10, n / 10 + RECEIPT_AFTER_S) for n in range(count)]


def stored(numbers: Sequence[int]) -> list[Delivery]:
    """These messages in this order, read long after they were sent."""
    return [Delivery(n, f"1:{entry}", UNTIL_S + entry / 1000) for entry, n in enumerate(numbers)]


def topic(
    numbers: Sequence[int] | None = None,
    delivered: Sequence[Delivery] | None = None,
    messages: Sequence[Sent] | None = None,
) -> TopicMessages:
    """A topic of the first broker with these numbers stored, delivered likewise unless said otherwise."""
    messages = sent() if messages is None else messages
    kept = stored([message.number for message in messages] if numbers is None else numbers)
    if delivered is None:
        delivered = [Delivery(got.number, got.message_id, got.number / 10 + 0.6) for got in kept]
    return TopicMessages(f"persistent://t/n/{BROKERS[0]}", messages, kept, delivered)


def sweep(
    at_s: float, limit: int = SHARE, certified: int | None = LIMIT, state: str = "ACTIVE"
) -> dict[str, Word]:
    """Every sidecar says the same."""
    word = Word(at_s, at_s + 0.01, state, limit, certified)
    return dict.fromkeys(BROKERS, word)


def sweeps(until_s: float = UNTIL_S) -> list[dict[str, Word]]:
    """A word of every sidecar, twice a second."""
    return [sweep(step / 2) for step in range(int(until_s * 2))]


def footprints(
    memory: Sequence[int],
    descriptors: int = 40,
    threads: int = 20,
    tasks: int = 30,
    pid: int = 77,
) -> list[Footprint]:
    """One process, looked at once a second."""
    return [
        Footprint("broker-1", pid, float(at_s), size, descriptors, threads, tasks)
        for at_s, size in enumerate(memory)
    ]


def history(
    rates: Mapping[str, Rates] = FAIR,
    *,
    topics: Sequence[TopicMessages] | None = None,
    mishaps: Sequence[Mishap] = (),
    words: Sequence[Mapping[str, Word]] | None = None,
    taken: Sequence[Footprint] = (),
    policy: str = "balanced",
    unsettled: Sequence[str] = (),
) -> History:
    """A minute in which three brokers share a limit fairly and nothing happens."""
    return History(
        limit=LIMIT,
        policy=policy,
        burst_s=0.05,
        settled_s=0.0,
        ended_s=UNTIL_S,
        topics=[topic()] if topics is None else topics,
        samples=[
            sample
            for broker, of_broker in rates.items()
            for sample in samples(broker, of_broker, UNTIL_S + 2 * PERIOD_S)
        ],
        sweeps=sweeps() if words is None else words,
        mishaps=mishaps,
        footprints=taken,
        unsettled=unsettled,
    )


def mishap(
    began_s: float = 20.0,
    ended_s: float = 24.0,
    recovery_s: float = 10.0,
    *,
    undone_within_s: float = inf,
    cuts: Sequence[str] = (),
    waiting: int = 0,
    stops: Sequence[str] = (),
    outside: Sequence[str] = (),
) -> Mishap:
    """Something that happened, which excuses nothing unless said otherwise."""
    return Mishap(
        what="a mishap",
        began_s=began_s,
        ended_s=ended_s,
        recovery_s=recovery_s,
        undone_within_s=undone_within_s,
        cuts=frozenset(cuts),
        waiting=waiting,
        stops=frozenset(stops),
        outside=frozenset(outside),
    )

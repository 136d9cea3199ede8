"""The records of a run for the checker: plain values without behaviour.

All times are seconds of CLOCK_MONOTONIC, which all processes of a machine share; rates and limits are
messages per second. What brokers counted is recorded as the demo records it (deploy.demo.recording).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from deploy.demo.recording import Miss, Sample


@dataclass(frozen=True, slots=True)
class Breach:
    """One rule that did not hold: which, and what was seen, for people."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of a client.

    Attributes:
        number: counted from 0 for each producer.
        sent_s: when it was given to the client library.
        receipt_s: when its receipt came; None if none ever did.
        refusal: why there will be none, in the client library's words; "" if none was given.
    """

    number: int
    sent_s: float
    receipt_s: float | None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as a consumer got it.

    Attributes:
        number: what the producer wrote into it.
        message_id: where it is stored; a message that was stored twice has two.
        at_s: when it was received.
    """

    number: int
    message_id: str
    at_s: float


@dataclass(frozen=True, slots=True)
class TopicMessages:
    """All messages of one topic, which one producer publishes to.

    Attributes:
        name: of the topic.
        sent: by the producer, in order of their numbers.
        stored: read from the broker itself after the load, in the order in which they are stored.
        delivered: to a consumer, behind the gates if there are any, while it happened, in the order of
            arrival.
    """

    name: str
    sent: Sequence[Sent]
    stored: Sequence[Delivery]
    delivered: Sequence[Delivery]


@dataclass(frozen=True, slots=True)
class Mishap:
    """Something that was done to the cluster, and what it excuses.

    Attributes:
        what: for people.
        began_s: when it was done.
        ended_s: when it was undone.
        recovery_s: after that, how soon all must be as before.
        undone_within_s: how long it may take until it is undone, from its beginning.
        cuts: brokers whose clients' connections may break, so that they send again what they have no
            receipt for.
        waiting: how many messages that gates have let through may be counted by brokers later; or what
            a broker that starts anew lets pass before its own limiter knows its part.
        stops: brokers whose traffic may stand still meanwhile; that of every other one goes on.
        outside: sidecars that may lose their place in the membership and go on with what they hold,
            as the group's ``partitionPolicy`` wants it.
    """

    what: str
    began_s: float
    ended_s: float
    recovery_s: float
    undone_within_s: float = inf
    cuts: frozenset[str] = frozenset()
    waiting: int = 0
    stops: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Word:
    """One sidecar's answer about itself.

    Attributes:
        state: its state; "" if it did not answer.
        limit: its local limit; None if it did not say.
        certified: the most that all local limits together can be, newcomers included; None if it
            certified nothing.
        broken: the last invariant of its core that did not hold since it began; "" if all did.
    """

    asked_s: float
    answered_s: float
    state: str = ""
    limit: int | None = None
    certified: int | None = None
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The resources of the machine that one process of a sidecar takes.

    Attributes:
        sidecar: of this broker.
        pid: of the process: the sidecar's own, or of one that it has started.
        at_s: when.
        memory_bytes: its own, and its part of what it shares with others.
        descriptors: files and connections that are open.
        threads: that it has.
        tasks: of event loops, as the sidecar tells them; all of them count as its own process's.
    """

    sidecar: str
    pid: int
    at_s: float
    memory_bytes: int
    descriptors: int
    threads: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A whole run.

    Attributes:
        limit: the group's, for the cluster; less than what each topic is offered.
        policy: the group's ``overshootPolicy``.
        burst_s: how much of a local limit a bucket may have saved up, in seconds; of a broker's own
            limiter, which starts each interval with a full one, how much that is.
        settled_s: from when on the load ran at the limit, before the first mishap.
        ended_s: when the load was about to end.
        topics: each with one producer that always has more to send.
        samples: of the brokers' own counters.
        misses: moments at which a broker did not serve a topic.
        sweeps: every sidecar's word, all asked at about the same time; by sidecar.
        mishaps: in order; none overlaps another.
        footprints: of the sidecars' processes.
        unsettled: changes of the group that were still not settled at the end, for people.
        not_recording: sidecars that recorded nothing any more at the end.
    """

    limit: int
    policy: str
    burst_s: float
    settled_s: float
    ended_s: float
    topics: Sequence[TopicMessages]
    samples: Sequence[Sample]
    misses: Sequence[Miss] = ()
    sweeps: Sequence[Mapping[str, Word]]
    mishaps: Sequence[Mishap] = ()
    footprints: Sequence[Footprint] = ()
    unsettled: Sequence[str] = ()
    not_recording: Sequence[str] = ()

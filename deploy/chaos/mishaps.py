"""The mishaps: their actions, their excuses, and the time until all must be as before.

Each is a row of `MISHAPS`, so a new one is a row and a function (actions.py). The times are those that
docs/failure-modes.md promises:

- *A sidecar's share* is free when its session has ended, and in use a round later: 4 s and 1 s.
- *A starting sidecar* serves within a second; clients come back when their back-off is over, which is
  at most as long as they have waited already (3 s here).
- *A broker, the bookie, ZooKeeper* come back in their own time: the mishap is undone when they are ready.
  Their own sessions last 5 s, and Pulsar's clients back off for up to 13 s meanwhile.
- *Allowance*: 10 s on top, for machines where three brokers, ZooKeeper and their clients share two
  cores with whatever else runs.

Under native enforcement clients go to the brokers themselves, so a mishap of a sidecar or of its links
cuts and stops no client, and a sidecar that lost its place adds nothing: all parts together stay within
the record. The only excuse for more messages is a broker that starts anew. It lets the whole record pass
until its first calculation, an interval later: at an interval of 1 s the limit, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf

from coordinator.config.model import GATE, NATIVE
from deploy.chaos import actions
from deploy.chaos.checker.bounds import STRICT
from deploy.chaos.checker.history import Mishap
from deploy.chaos.clients import PENDING_MESSAGES
from deploy.chaos.links import Treatment
from deploy.chaos.testbed import LIMIT, SESSION_TIMEOUT_S

_ROUND_S = 1.0
ALLOWANCE_S = 10.0
#: After mishaps of sidecars and links.
_OURS_S = SESSION_TIMEOUT_S + _ROUND_S + ALLOWANCE_S
#: After mishaps of brokers, the bookie and ZooKeeper.
_THEIRS_S = 5.0 + 13.0 + _ROUND_S + ALLOWANCE_S


@dataclass(frozen=True, slots=True)
class Occasion:
    """Where and when a mishap happened.

    Attributes:
        target: the broker that it happened to, or whose sidecar.
        seconds: its planned length.
        began_s: when it began, in seconds of CLOCK_MONOTONIC.
        ended_s: when it was undone.
    """

    target: str
    seconds: float
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class MishapKind:
    """One kind of mishap; what it excuses is explained at `checker.history.Mishap`.

    Attributes:
        what: a sentence, with {target} for the broker and {seconds} for the time.
        do: does it and undoes it.
        seconds: its shortest and longest length.
        undone_s: the longest time beyond that until it is undone, the start of a process included.
        cuts: connections may break, so traffic may stand still, too.
        delays: a broker may count later what its gate has let through.
        unconfirmed: ZooKeeper may confirm no session meanwhile, so that nothing of a strict group passes.
        everywhere: it happens to something that all brokers share, or to one after the other.
        of_server: it happens to a server of Pulsar's, not to a sidecar or a link of one.
        anew: a broker starts anew.
        only: the enforcement path that it makes sense with; empty for every one.
    """

    what: str
    do: actions.Do
    seconds: tuple[float, float]
    recovery_s: float = _OURS_S
    undone_s: float = ALLOWANCE_S
    cuts: bool = False
    delays: bool = False
    stops: bool = False
    outside: bool = False
    unconfirmed: bool = False
    everywhere: bool = False
    of_server: bool = False
    anew: bool = False
    only: str = ""

    def happened(
        self,
        what: str,
        occasion: Occasion,
        policy: str,
        brokers: Iterable[str],
        path: str = GATE,
    ) -> Mishap:
        """Return its excuses in a group of this policy on this enforcement path, now that it is over."""
        strict = policy == STRICT
        struck = frozenset(brokers if self.everywhere else [occasion.target])
        stops = self.stops or self.cuts or (strict and self.unconfirmed)
        none: frozenset[str] = frozenset()
        felt = struck if self.of_server or path == GATE else none
        if path == NATIVE:
            waiting = LIMIT if self.anew else 0
        else:
            waiting = PENDING_MESSAGES * len(struck) if self.delays else 0
        return Mishap(
            what=what,
            began_s=occasion.began_s,
            ended_s=occasion.ended_s,
            # Under strict the share of a broker that was restarted within its session is free
            # one session timeout later.
            recovery_s=self.recovery_s + (SESSION_TIMEOUT_S if strict else 0.0),
            undone_within_s=occasion.seconds + self.undone_s,
            cuts=felt if self.cuts else none,
            waiting=waiting,
            stops=felt if stops else none,
            outside=struck if self.outside and path == GATE else none,
        )


#: What happens to a server of the cluster, which comes back in its own time.
_of_server = partial(
    MishapKind, recovery_s=_THEIRS_S, undone_s=inf, delays=True, everywhere=True, of_server=True
)

_STALLED = Treatment(stalled_out=True, stalled_back=True)
_LATE = Treatment(delay_s=0.3, bytes_per_s=50_000, loss=0.1)
_FAST_ENOUGH = Treatment(delay_s=0.02, bytes_per_s=400_000, loss=0.02)

MISHAPS: Mapping[str, MishapKind] = {
    "sidecar-kill": MishapKind(
        "the sidecar of {target} is killed and started again {seconds:.0f} s later",
        actions.kill_sidecar,
        (1, 3),
        cuts=True,
    ),
    "sidecar-freeze": MishapKind(
        "the sidecar of {target} stands still for {seconds:.0f} s",
        actions.freeze_sidecar,
        (1, 3),
        stops=True,
    ),
    "sidecar-long-freeze": MishapKind(
        "the sidecar of {target} stands still for {seconds:.0f} s, longer than its session",
        actions.freeze_sidecar,
        (SESSION_TIMEOUT_S + 2, SESSION_TIMEOUT_S + 5),
        stops=True,
        outside=True,
    ),
    "sidecars-roll": MishapKind(
        "all sidecars are restarted one after the other",
        actions.roll_sidecars,
        (2, 3),
        cuts=True,
        everywhere=True,
        undone_s=30.0 + ALLOWANCE_S,
    ),
    "gate-kill": MishapKind(
        "the gate of {target} is killed, and its sidecar started again {seconds:.0f} s later",
        actions.kill_gate,
        (1, 3),
        cuts=True,
        only=GATE,
    ),
    "gate-freeze": MishapKind(
        "the gate of {target} stands still for {seconds:.0f} s, and its sidecar does not",
        actions.freeze_gate,
        (1, 3),
        stops=True,
        only=GATE,
    ),
    "broker-kill": _of_server(
        "{target} is killed and started again {seconds:.0f} s later",
        actions.kill_broker,
        (1, 3),
        cuts=True,
        anew=True,
    ),
    "broker-restart": _of_server(
        "{target} is restarted",
        actions.restart_broker,
        (0, 1),
        cuts=True,
        anew=True,
    ),
    "owner-kill": _of_server(
        "the broker that serves the topic of resource usage is killed and started again {seconds:.0f} s "
        "later",
        actions.kill_owner,
        (1, 3),
        cuts=True,
        anew=True,
        only=NATIVE,
    ),
    "broker-freeze": _of_server(
        "{target} stands still for {seconds:.0f} s",
        actions.freeze_server,
        (1, 3),
        cuts=True,
    ),
    "bookie-kill": _of_server(
        "the bookie is killed and started again {seconds:.0f} s later",
        actions.kill_bookie,
        (1, 2),
        cuts=True,
    ),
    "bookie-freeze": _of_server(
        "the bookie stands still for {seconds:.0f} s",
        actions.freeze_bookie,
        (1, 3),
        cuts=True,
    ),
    "zookeeper-kill": _of_server(
        "the ZooKeeper that leads is killed and started again {seconds:.0f} s later",
        actions.kill_zookeeper,
        (2, 5),
        unconfirmed=True,
    ),
    "zookeeper-freeze": _of_server(
        "the ZooKeeper that leads stands still for {seconds:.0f} s",
        actions.freeze_zookeeper,
        (1, 3),
        unconfirmed=True,
    ),
    "zookeeper-cut": MishapKind(
        "the sidecar of {target} is cut off from ZooKeeper for {seconds:.0f} s",
        actions.linked(actions.zookeeper, _STALLED),
        (1, 3),
        unconfirmed=True,
    ),
    "session-expiry": MishapKind(
        "the sidecar of {target} is cut off from ZooKeeper for {seconds:.0f} s, past its session",
        actions.linked(actions.zookeeper, _STALLED),
        (SESSION_TIMEOUT_S + 3, SESSION_TIMEOUT_S + 6),
        outside=True,
        unconfirmed=True,
    ),
    "zookeeper-mute": MishapKind(
        "the sidecar of {target} hears nothing from ZooKeeper for {seconds:.0f} s",
        actions.linked(actions.zookeeper, Treatment(stalled_back=True)),
        (SESSION_TIMEOUT_S + 3, SESSION_TIMEOUT_S + 6),
        outside=True,
        unconfirmed=True,
    ),
    "zookeeper-reset": MishapKind(
        "the sidecar of {target} is refused by ZooKeeper for {seconds:.0f} s",
        actions.linked(actions.zookeeper, Treatment(severed=True)),
        (1, 3),
        unconfirmed=True,
    ),
    "zookeeper-slow": MishapKind(
        "between the sidecar of {target} and ZooKeeper all is late, slow and lossy for {seconds:.0f} s",
        actions.linked(actions.zookeeper, _LATE),
        (5, 10),
        outside=True,
        unconfirmed=True,
    ),
    "bus-cut": MishapKind(
        "the sidecar of {target} is cut off from the bus for {seconds:.0f} s",
        actions.linked(actions.bus, _STALLED),
        (5, 10),
    ),
    "bus-reset": MishapKind(
        "the sidecar of {target} is refused by the bus for {seconds:.0f} s",
        actions.linked(actions.bus, Treatment(severed=True)),
        (2, 5),
    ),
    "bus-slow": MishapKind(
        "between the sidecar of {target} and the bus all is late, slow and lossy for {seconds:.0f} s",
        actions.linked(actions.bus, _LATE),
        (5, 10),
    ),
    "gate-cut": MishapKind(
        "the gate of {target} is cut off from its broker for {seconds:.0f} s",
        actions.linked(actions.broker, _STALLED),
        (1, 3),
        cuts=True,
        delays=True,
        only=GATE,
    ),
    "gate-reset": MishapKind(
        "the gate of {target} is refused by its broker for {seconds:.0f} s",
        actions.linked(actions.broker, Treatment(severed=True)),
        (1, 2),
        cuts=True,
        delays=True,
        only=GATE,
    ),
    "gate-slow": MishapKind(
        "between the gate of {target} and its broker all is late, slow and lossy for {seconds:.0f} s",
        actions.linked(actions.broker, _FAST_ENOUGH),
        (5, 10),
        delays=True,
        stops=True,
        only=GATE,
    ),
    "flood": MishapKind(
        f"{actions.FLOOD:,} connections are opened at the gate of {{target}} for {{seconds:.0f}} s",
        actions.flood,
        (2, 5),
        only=GATE,
    ),
    "descriptors": MishapKind(
        "the gate of {target} has no file descriptors left for {seconds:.0f} s",
        actions.exhaust_descriptors,
        (3, 6),
        only=GATE,
    ),
    "disk-full": MishapKind(
        "the sidecar of {target} cannot write to any file for {seconds:.0f} s",
        actions.fill_disk,
        (4, 8),
    ),
    "slow-consumer": MishapKind(
        "a consumer of the topic of {target} reads five messages a second for {seconds:.0f} s",
        actions.consume_slowly,
        (5, 10),
    ),
    "garbage": MishapKind(
        "a stranger publishes garbage on the bus for {seconds:.0f} s",
        actions.spew_garbage,
        (5, 10),
    ),
}


def possible(path: str) -> tuple[str, ...]:
    """The mishaps that make sense on an enforcement path."""
    return tuple(name for name, kind in MISHAPS.items() if kind.only in ("", path))

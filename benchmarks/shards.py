"""Groups spread over bus shards by a hash of their names: what a sidecar reads and sends, and its price.

The cluster: 100 brokers, 5,000 groups, each group on 5 of them, so 250 groups on each broker and some
25,000 rows into each sidecar. All of them move by a fifth in every round. A group's brokers are drawn at
``random``, or stand next to each other (``packed``): then a sidecar needs its neighbours only.

* *one report*: each broker sends one, which every sidecar reads. As most of the groups have moved, it is
  complete, and a receiver takes its columns as they are.
* *one by one*: the same without that, so that its rows are merged one by one.
* *S shards*: S topics. A broker sends a report for each shard in which it has groups, and a sidecar reads
  the shards of its own groups. Each shard has numbers of its own, and so a usage map of its own.

Measured is the product's own path: out, a report is put into columns, encoded and signed; in, its
sender and signature are verified, it is decoded and taken into the usage map. Decisions are left
out: they are about the own groups in each case. The price of the real client (bus_price.py) is added for
each message and byte, once: a second copy of each topic (`bus_topics`) costs it once more in each case.

1,000 brokers with 50,000 groups are computed: messages and rows are counted, and each has the price that
the two extremes of 100 brokers have told, one report and the most shards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.bus_price import measure_bus_price
from benchmarks.figures import Figure, Measurement, median_seconds
from benchmarks.wire import definitions_of, publish_steadily
from coordinator.core.model import GroupUsage, Member, ResourceGroup, UsageReport
from coordinator.core.usage.columns import entries_in_columns
from coordinator.core.usage.map import UsageMap, Verdict
from coordinator.runtime.logs import configure_logs
from coordinator.wire.reports import decode, encode
from coordinator.wire.senders import Senders
from coordinator.wire.signature import Signer

BROKERS: Final = 100
GROUPS: Final = 5_000
BROKERS_PER_GROUP: Final = 5
EACH: Final = GROUPS * BROKERS_PER_GROUP // BROKERS
"""The groups of a broker."""

SHARDS: Final = (8, 64, 512, 4_096)
LARGER: Final = 10
"""The factor by which the cluster on paper has more brokers and groups."""
ROUNDS: Final = 3
SUBJECT: Final = 0
"""The broker whose sidecar is measured."""

_SENT_MS: Final = 1_764_000_000_000

Placement = Sequence[Sequence[int]]
"""The groups of each broker, by number."""


def placements(brokers: int, groups: int) -> Mapping[str, Placement]:
    """Return the groups of each broker, for each kind of placement."""
    random = np.random.default_rng(seed=26)
    drawn: list[list[int]] = [[] for _ in range(brokers)]
    packed: list[list[int]] = [[] for _ in range(brokers)]
    for group in range(groups):
        for broker in random.choice(brokers, BROKERS_PER_GROUP, replace=False).tolist():
            drawn[broker].append(group)
        for step in range(BROKERS_PER_GROUP):
            packed[(group * brokers // groups + step) % brokers].append(group)
    return {"random": drawn, "packed": packed}


def names_of(groups: int) -> list[str]:
    """Return names for groups that are only counted."""
    return [f"group-{number}" for number in range(groups)]


def shard_of(name: str, shards: int) -> int:
    """Return the shard of a group."""
    return crc32(name.encode()) % shards


class Read(NamedTuple):
    """The messages that come into a sidecar in a round, and the rows in them."""

    messages: int
    rows: int


def count_read(placement: Placement, names: Sequence[str], shards: int) -> Read:
    """Count the messages of the others that the subject reads, and their rows."""
    places = [shard_of(name, shards) for name in names]
    read = {places[group] for group in placement[SUBJECT]}
    messages = rows = 0
    for broker, groups in enumerate(placement):
        if broker != SUBJECT:
            wanted = [places[group] for group in groups if places[group] in read]
            messages += len(set(wanted))
            rows += len(wanted)
    return Read(messages, rows)


class ReportTraffic(NamedTuple):
    """The messages into a sidecar or out of it in a round.

    Args:
        messages: their number.
        size: bytes of their payloads.
        seconds: of processor time.
    """

    messages: int
    size: int
    seconds: float

    @classmethod
    def of(cls, payloads: Sequence[bytes], seconds: float) -> ReportTraffic:
        """Return the load of these payloads."""
        return cls(len(payloads), sum(map(len, payloads)), seconds)


@dataclass(frozen=True, slots=True)
class Form:
    """A way to spread reports.

    Args:
        shards: number of topics.
        complete: whether a report whose groups have all moved is a complete one.
    """

    shards: int = 1
    complete: bool = True

    @property
    def text(self) -> str:
        """Its name beside the product's own."""
        if not self.complete:
            return "one report, rows merged one by one"
        return f"{self.shards:,} shards" if self.shards > 1 else "one report"


FORMS: Final = (Form(), Form(complete=False), *map(Form, SHARDS))


class Brokers:
    """All brokers of a cluster with their groups, and the reports that they send."""

    def __init__(self, groups: Sequence[ResourceGroup], placement: Placement) -> None:
        self.names = {group.configuration_version: group.name for group in groups}
        self._template = publish_steadily(groups[:EACH], moving=True).complete
        self._usages = [entry.usages for entry in self._template.groups]
        self._groups = [[groups[number] for number in numbers] for numbers in placement]
        self._signers = [Signer() for _ in placement]
        self.members = [
            Member(f"broker-{number:03}.example.com:8080", 4_294_967_311, "", signer.public_key)
            for number, signer in enumerate(self._signers)
        ]

    def spread(self, broker: int, round_: int, form: Form) -> dict[int, list[GroupUsage]]:
        """Return the rows of a broker in a round, by shard."""
        found: dict[int, list[GroupUsage]] = defaultdict(list)
        for place, group in enumerate(self._groups[broker]):
            # Another round has other figures for each group.
            usages = self._usages[(place + broker + round_) % len(self._usages)]
            entry = GroupUsage(group.name, group.configuration_version, usages)
            found[shard_of(group.name, form.shards)].append(entry)
        return found

    def report(
        self, broker: int, round_: int, rows: Sequence[GroupUsage], form: Form
    ) -> UsageReport:
        """Return a report of these rows; that of round 1 is complete, as any first report."""
        complete = form.complete or round_ == 1
        return replace(
            self._template,
            broker=self.members[broker].broker,
            incarnation=self.members[broker].incarnation,
            sequence=round_,
            groups=entries_in_columns(rows) if complete else rows,
            complete=complete,
            since=0 if complete else round_ - 1,
        )

    def payload(self, broker: int, report: UsageReport) -> bytes:
        """Return a report as it goes out."""
        return self._signers[broker].sign(encode(report, _SENT_MS))


class Shard:
    """The reports of one topic, at one sidecar."""

    def __init__(self, brokers: Brokers) -> None:
        subject = brokers.members[SUBJECT].broker
        self._brokers = brokers
        self.senders = Senders(subject)
        self.senders.set_members(brokers.members)
        self.usage = UsageMap(subject)
        self.usage.set_members({member.broker: member for member in brokers.members})

    def take(self, payload: bytes) -> None:
        """Take a report in, as reception and core do."""
        opened = self.senders.open(payload, 0)
        assert opened is not None
        report = decode(opened.report, self._brokers.names)
        taken = self.usage.take(report, 0)
        assert taken.verdict is Verdict.TAKEN
        self.usage.digest(report.broker)


class Sidecar:
    """The subject with one form: its shards, and the rounds that wait to be read."""

    def __init__(self, brokers: Brokers, form: Form) -> None:
        own = brokers.spread(SUBJECT, 1, form)
        self._brokers = brokers
        self._form = form
        self._shards = {shard: Shard(brokers) for shard in own}
        for shard, rows in own.items():
            self._shards[shard].usage.take(brokers.report(SUBJECT, 1, rows, form), 0)
        self._read_round(self._arriving(1))
        self._rounds = iter([self._arriving(round_) for round_ in range(2, 2 + ROUNDS)])
        #: The payloads of a round, into the sidecar and out of it.
        self.arrived = [payload for _, payload in self._arriving(2)]
        self.sent = self.send()

    def read(self) -> None:
        """Read the next round."""
        self._read_round(next(self._rounds))

    def send(self) -> list[bytes]:
        """Make the payloads of a round."""
        spread = self._brokers.spread(SUBJECT, 2, self._form)
        return [self._payload(SUBJECT, 2, rows) for rows in spread.values()]

    def _read_round(self, arriving: Sequence[tuple[int, bytes]]) -> None:
        for shard, payload in arriving:
            self._shards[shard].take(payload)

    def _arriving(self, round_: int) -> list[tuple[int, bytes]]:
        return [
            (shard, self._payload(sender, round_, rows))
            for sender in range(BROKERS)
            if sender != SUBJECT
            for shard, rows in self._brokers.spread(sender, round_, self._form).items()
            if shard in self._shards
        ]

    def _payload(self, sender: int, round_: int, rows: Sequence[GroupUsage]) -> bytes:
        report = self._brokers.report(sender, round_, rows, self._form)
        return self._brokers.payload(sender, report)


def spread_over_shards() -> Iterator[Figure]:
    """Compare all forms, for each placement, and on paper for a larger cluster."""
    configure_logs("warning")
    price = measure_bus_price()
    groups = definitions_of(GROUPS)
    for kind, placement in placements(BROKERS, GROUPS).items():
        brokers = Brokers(groups, placement)
        sidecars = {form.text: Sidecar(brokers, form) for form in FORMS}
        reads_s = median_seconds({form: each.read for form, each in sidecars.items()}, ROUNDS)
        sends_s = median_seconds({form: each.send for form, each in sidecars.items()}, ROUNDS)
        ins, outs = {}, {}
        for form, sidecar in sidecars.items():
            arrived, sent = sidecar.arrived, sidecar.sent
            ins[form] = ReportTraffic.of(arrived, reads_s[form] + price.seconds_in(arrived))
            outs[form] = ReportTraffic.of(sent, sends_s[form] + price.seconds_out(sent))
        yield from _figures(f"{kind}/in", ins)
        yield from _figures(f"{kind}/out", outs)
        yield from _figures(f"{kind}/in-of-{BROKERS * LARGER}", _on_paper(kind, ins))


def _on_paper(kind: str, measured: Mapping[str, ReportTraffic]) -> dict[str, ReportTraffic]:
    """Compute a cluster that is LARGER times as large, from the prices of a message and a row."""
    small, large = (
        (placements(BROKERS * factor, GROUPS * factor)[kind], names_of(GROUPS * factor))
        for factor in (1, LARGER)
    )
    ends = [(count_read(*small, shards), measured[Form(shards).text]) for shards in (1, SHARDS[-1])]
    counted = np.array([list(read) for read, _ in ends])
    bytes_of, seconds_of = (
        np.linalg.solve(counted, np.array(found))
        for found in zip(*[(load.size, load.seconds) for _, load in ends], strict=True)
    )
    found = {}
    for shards in (1, *SHARDS, SHARDS[-1] * LARGER * 2):
        read = np.array(count_read(*large, shards))
        found[Form(shards).text] = ReportTraffic(
            int(read[0]), int(read @ bytes_of), float(read @ seconds_of)
        )
    return found


def _figures(name: str, loads: Mapping[str, ReportTraffic]) -> Iterator[Figure]:
    """The three figures of a load, those of one report beside the others."""
    own = Form().text
    for place, (what, unit) in enumerate(
        (("messages", "a round"), ("bytes", "B a round"), ("seconds", "s of processor a round"))
    ):
        values: dict[str, float] = {form: load[place] for form, load in loads.items()}
        peers = {form: value for form, value in values.items() if form != own}
        yield Figure(f"wire-shards/{name}/{what}", values[own], unit, "lower", peers)


MEASUREMENTS: Mapping[str, Measurement] = {"wire-shards/": spread_over_shards}

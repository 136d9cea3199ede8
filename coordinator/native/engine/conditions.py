"""Conditions that keep native enforcement from being exact, each with its remedy; pure.

In each of these cases brokers let pass at most the rate in the group's record in Pulsar, each by itself
where they do not hear each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.answer import answer
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.outside import BrokerFacts, TopicHealth
from coordinator.native.engine.replication import can_throttle
from coordinator.native.engine.table import Stranger

TRANSPORT: Final = "org.apache.pulsar.broker.resourcegroup.ResourceUsageTopicTransportManager"
"""The one transport that Pulsar has."""

STRICT_HERE: Final = "strict"
"""The condition that a group demands a policy which brokers cannot keep."""

NOT_NATIVE: Final = "not-native"
"""The condition that a limit is set which only a gate can enforce."""

SLOW_INTERVAL_S: Final = 10
"""A longer interval works, and is reported: a limit reaches the brokers that late."""

_SPEAKS_WITHIN: Final = 5
_GRACE_NS: Final = 5 * NANOS_PER_SECOND
_EDIT_TOLD_NS: Final = 300 * NANOS_PER_SECOND
_NAMED: Final = 5
_VERSION_MAX: Final = 40


@answer
class NativeCondition:
    """A condition that keeps native enforcement from being exact; operators see it as NativeInexact."""

    code: str
    """one word"""
    text: str
    fix: str


@dataclass(slots=True)
class Observed:
    """The observed state of broker, topic and groups.

    Args:
        facts: of the broker's configuration; None until it was read.
        admin_error: why the last request to its admin REST failed; empty if it did not.
        counters_error: the same of its counters.
        replication_error: why its counters of some topic's replication cannot be read; empty if they can.
        dispatch_error: why dispatch rates cannot be written; empty if they can, or need not be.
        topic_limits_error: the same of the limits of single topics.
        health: of the topic of entries.
        steered_since_ns: time since which there are entries to write; None while there are none.
        spoke_ns: time of the own broker's last report; None is never.
        skew_ns: delay of its last report's arrival, by this machine's clock.
        strangers: other processes that write in brokers' names.
        unsteered: brokers that report and that no sidecar steers.
        forgotten: native groups of which a broker knows no attachment.
        overflowing: namespaces of groups of which more passes than the broker's limiter would let.
        edited: records, attachments and policies that others changed, and when that was seen.
        uncounted: namespaces with topics that the broker's metrics do not count readably.
        foreign: namespaces that Pulsar has in a group which is not known here, and that group.
        cannot: limits that a broker cannot enforce.
        lists_topics: whether the broker's metrics list topics, and not namespaces alone.
        limits_dispatch: whether any group has a limit of dispatch.
        limits_topics: whether any topic has a limit of its own.
        strict: groups under the strict policy, which is not kept here.
        remotes: remote clusters that are sent no more than a limit.
    """

    facts: BrokerFacts | None = None
    admin_error: str = ""
    counters_error: str = ""
    replication_error: str = ""
    dispatch_error: str = ""
    topic_limits_error: str = ""
    health: TopicHealth = field(default_factory=lambda: TopicHealth(False, "", 0, 0))
    steered_since_ns: int | None = None
    spoke_ns: int | None = None
    skew_ns: int = 0
    strangers: tuple[Stranger, ...] = ()
    unsteered: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    overflowing: tuple[str, ...] = ()
    edited: dict[str, int] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()
    foreign: dict[str, str] = field(default_factory=dict)
    cannot: tuple[str, ...] = ()
    lists_topics: bool = True
    limits_dispatch: bool = False
    limits_topics: bool = False
    strict: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()

    @property
    def can_throttle_replication(self) -> bool:
        """Whether the broker is known to go on replicating after a rate has held it back."""
        return self.facts is not None and can_throttle(self.facts.version)

    def note_edited(self, name: str, now_ns: int) -> bool:
        """Note a change by others, for as long as it is told; return whether it is news."""
        self.edited = {each: at for each, at in self.edited.items() if now_ns - at < _EDIT_TOLD_NS}
        is_news = name not in self.edited
        self.edited[name] = now_ns
        return is_news


def conditions(seen: Observed, now_ns: int) -> Iterator[NativeCondition]:
    """Yield all conditions that hold, the worst first."""
    yield from _of_connection(seen)
    if seen.facts is not None:
        yield from _of_broker(seen, seen.facts, now_ns)
    for stranger in seen.strangers:
        text = (
            f"{stranger.producer} writes on the topic of resource usage in the name of "
            f"{stranger.broker}"
        )
        fix = (
            "find who it is and take away its permission to produce on pulsar/system; meanwhile the "
            "sidecar writes over it"
        )
        yield NativeCondition("stranger", text, fix)
    if seen.unsteered:
        text = (
            f"they report their use and have no sidecar, so they get equal parts, whatever they want: "
            f"{_listed(seen.unsteered)}"
        )
        fix = "start a sidecar beside each (native, or gate+native), or find who writes in their names"
        yield NativeCondition("unsteered", text, fix)
    if seen.forgotten:
        text = f"a broker forgot what is attached, and lets whole records pass: {_listed(seen.forgotten)}"
        fix = "none is needed: it is attached again; if it stays, look into the broker's log"
        yield NativeCondition("forgotten", text, fix)
    if seen.overflowing:
        text = f"more passes than the broker's limiter would let: {_listed(seen.overflowing)}"
        fix = (
            "none at first: they are attached again, as topics that the broker loaded before it knew the "
            "group have no limiter; if it stays, look for batches that are larger than the limit"
        )
        yield NativeCondition("overflow", text, fix)
    recent = sorted(name for name, at in seen.edited.items() if now_ns - at < _EDIT_TOLD_NS)
    if recent:
        text = f"changed in Pulsar by others and set again: {_listed(recent)}"
        yield NativeCondition(
            "edited",
            text,
            "change groups, attachments and topics' limits through the sidecars' API",
        )
    if seen.foreign:
        pairs = [f"{name} ({group})" for name, group in sorted(seen.foreign.items())]
        text = f"attached in Pulsar to groups that are not known here, and left there: {_listed(pairs)}"
        yield NativeCondition(
            "foreign", text, "import them (pulsar-quota import), or detach them in Pulsar"
        )
    if seen.strict:
        text = (
            f"overshootPolicy strict is not kept here, as brokers take limits up once an interval: "
            f"{_listed(seen.strict)}"
        )
        fix = "set overshootPolicy to balanced, or put a gate before the broker (enforcement_path)"
        yield NativeCondition(STRICT_HERE, text, fix)
    if seen.cannot:
        text = f"limited, and not by brokers: {_listed(seen.cannot)}"
        yield NativeCondition(
            NOT_NATIVE, text, "put a gate before the broker, or take the limit away"
        )


def _of_connection(seen: Observed) -> Iterator[NativeCondition]:
    if not seen.health.connected and seen.health.reason:
        fix = (
            "the sidecar's role must be allowed to produce and consume on pulsar/system; see bus_*"
        )
        yield NativeCondition(
            "topic", f"the topic of resource usage cannot be used: {seen.health.reason}", fix
        )
    if seen.admin_error:
        fix = "broker_web_url must answer, and broker_token_file hold a super-user's token"
        yield NativeCondition(
            "admin", f"the broker's admin REST cannot be used: {seen.admin_error}", fix
        )
    rates_error = seen.dispatch_error or seen.topic_limits_error
    if rates_error:
        fix = "broker_web_url must answer, and broker_token_file hold a super-user's token"
        yield NativeCondition("rates", f"rates of topics cannot be written: {rates_error}", fix)
    if seen.counters_error:
        fix = "broker_web_url must answer /metrics to the token in broker_token_file"
        yield NativeCondition("counters", f"counters cannot be read: {seen.counters_error}", fix)
    elif seen.replication_error:
        text = f"replication of some topics is not counted: {seen.replication_error}"
        yield NativeCondition(
            "counters", text, "look at these topics; let the sidecar read their stats"
        )
    if seen.uncounted:
        text = (
            "topics have names that the broker's metrics cannot hold (a line feed, or a backslash at the "
            f"end), so their demand is not seen: {_listed(seen.uncounted)}"
        )
        fix = (
            "delete those topics; the broker limits them all the same, but not what they replicate"
        )
        yield NativeCondition("uncounted", text, fix)


def _of_broker(seen: Observed, facts: BrokerFacts, now_ns: int) -> Iterator[NativeCondition]:
    if seen.limits_dispatch and not seen.lists_topics:
        text = "the broker's metrics list no topics, so no limit of dispatch is held"
        fix = "set exposeTopicLevelMetricsInPrometheus=true in broker.conf"
        yield NativeCondition("topics", text, fix)
    if (seen.limits_dispatch or seen.limits_topics) and not facts.topic_policies:
        text = (
            "topics have no policies, so no limit of dispatch is held, and none of a single topic"
        )
        fix = "set topicLevelPoliciesEnabled=true in broker.conf"
        yield NativeCondition("policies", text, fix)
    if seen.remotes and not seen.can_throttle_replication:
        text = (
            f"brokers of {facts.version[:_VERSION_MAX] or 'an unknown version'} may stop replicating for "
            f"ever when a rate holds them back, so replication is not limited to {_listed(seen.remotes)}"
        )
        yield NativeCondition("replication", text, "upgrade to Pulsar 4.2.4, 5.0.1 or later")
    if facts.transport != TRANSPORT:
        text = (
            "the broker does not read the topic of resource usage, so it lets the whole record pass"
        )
        yield NativeCondition(
            "transport", text, f"set resourceUsageTransportClassName={TRANSPORT} in broker.conf"
        )
        return
    if facts.interval_s > SLOW_INTERVAL_S:
        text = f"a limit reaches the broker once in {facts.interval_s} s only"
        fix = "set resourceUsageTransportPublishIntervalInSecs=1 in broker.conf"
        yield NativeCondition("interval", text, fix)
    expected_ns = _SPEAKS_WITHIN * facts.interval_s * NANOS_PER_SECOND + _GRACE_NS
    since_ns = seen.steered_since_ns
    if since_ns is not None and now_ns - max(since_ns, seen.spoke_ns or 0) > expected_ns:
        text = f"nothing is heard of the broker in the name of {facts.service_url}"
        fix = "look whether it runs, and whether that is what it reports as; see native_service_url"
        yield NativeCondition("silent", text, fix)
    if abs(seen.skew_ns) > facts.interval_s * NANOS_PER_SECOND:
        apart = seen.skew_ns / NANOS_PER_SECOND
        text = f"the clocks of broker and sidecar are {apart:+.1f} s apart"
        fix = "keep clocks with NTP; entries that seem older than two intervals are dropped by brokers"
        yield NativeCondition("clock", text, fix)


def _listed(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"

"""The whole state, against brokers that do with its messages what Pulsar's do."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest

from coordinator.core.model import Attachments, MonitoringClass, Rates
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.entries import Amounts, Record
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import REST, Statement
from coordinator.native.engine.trim import MOST_PERMILLE, WHOLE
from tests.native.engine.steered import C, S, World, busy, url
from tests.native.engine.test_entries import pulsars_quota


def test_every_broker_gets_its_limit_and_no_rest_is_needed() -> None:
    """The limits add up to the group's."""
    world = World("a", "b", "c")
    world.limit(a=1_500, b=1_000, c=500)
    world.write()

    assert world.quotas() == {"a": 750, "b": 500, "c": 250}
    assert world.table[REST]["g"] == Amounts()


def test_what_nobody_gets_is_in_the_rest() -> None:
    """The rest keeps quotas from growing where nothing may be lent, and ends when it is not needed."""
    world = World("a", "b")
    world.limit(a=1_500, b=0)
    world.write()
    assert world.quotas() == {"a": 750, "b": 1}
    assert world.table[REST]["g"].messages == 1_500

    world.limit(a=2_000, b=1_000)
    world.write(100)
    assert world.quotas() == {"a": 1_000, "b": 500}
    assert world.table[REST]["g"].messages == 0


def test_a_rest_that_knows_no_other_change_is_corrected_at_once() -> None:
    """Two sidecars that lower their entries at the same moment each keep room for the other's."""
    world = World("a", "b", "c")
    world.limit(a=1_000, b=1_000, c=1_000)
    world.write(10)
    world.say(url("b"), {"g": Amounts(500)}, "b")
    world.say(url("c"), {"g": Amounts(500)}, "c")
    late = Statement(REST, {"g": Amounts(500)}, "c", "c", stands_in=True)

    assert world.sidecars["a"].take(late, world.now_ns), "the first of them by name"
    assert not world.sidecars["b"].take(late, world.now_ns)


def test_a_group_of_a_tree_has_its_part_and_nothing_that_belongs_to_its_siblings() -> None:
    """However busy its clients are: the rest keeps what the core gives to others."""
    world = World("a", "b", in_trees=("g",))
    world.limit(a=100, b=1)
    busy(world, "a", "b")
    world.write(20)

    quotas = world.quotas()
    assert 50 <= quotas["a"] <= 51
    assert quotas["b"] == 1
    kept = sum(row["g"].messages for row in world.table.values())
    assert kept == pytest.approx(C, abs=4)


def test_a_brokers_own_report_is_written_over() -> None:
    """This holds for any report; the view names the sidecar that must write."""
    world = World("a", "b")
    world.limit(a=2_000, b=1_000)
    world.write()
    said = Statement(url("a"), {"g": Amounts(9)}, "", "p")
    assert world.sidecars["a"].take(said, world.now_ns)
    assert not world.sidecars["b"].take(said, world.now_ns)
    world.say(url("a"), {"g": Amounts(9)})
    world.write()
    assert world.quotas() == {"a": 1_000, "b": 500}


def test_a_forged_entry_is_written_over_at_once() -> None:
    """Though it names the broker's own sidecar; an echo of what was written is none."""
    world = World("a", "b")
    world.limit(a=2_000, b=1_000)
    world.write()
    forged = Statement(url("a"), {"g": Amounts(9)}, "a", "evil")
    assert world.sidecars["a"].take(forged, world.now_ns)
    echo = Statement(url("a"), {"g": Amounts(2_000)}, "a", "p")
    assert not world.sidecars["a"].take(echo, world.now_ns)


def test_a_strangers_rest_is_written_over_at_once() -> None:
    """As much again as the limit would halve all quotas; another sidecar's rest is none of a stranger."""
    world = World("a", "b")
    world.limit(a=2_000, b=1_000)
    world.write()
    sidecar = world.sidecars["a"]
    assert sidecar.take(Statement(REST, {"g": Amounts(3_000)}, producer="evil"), world.now_ns)
    assert REST in dict(sidecar.to_write(world.now_ns))
    assert not sidecar.take(Statement(REST, {"g": Amounts(0)}, "b", "p"), world.now_ns)


def test_the_row_of_a_dead_broker_is_set_to_nothing() -> None:
    """Its sidecar must be gone and the broker silent."""
    world = World("a", "b", "c")
    world.limit(a=1_000, b=1_000, c=1_000)
    world.say(url("c"), {"g": Amounts(990)})
    world.write()
    del world.sidecars["c"]
    for steering in world.sidecars.values():
        steering.set_members(["a", "b"])
    world.limit(a=1_500, b=1_500)
    world.now_ns += 5 * S
    world.write()

    assert world.table[url("c")]["g"] == Amounts()
    assert world.quotas() == {"a": 750, "b": 750}


class Orphaned:
    """Three saturated brokers of which the sidecar of one, c, has died; the others share its part.

    Each interval all compute their quotas from the table, and c uses its own up and reports that.
    """

    def __init__(self, each: int = 1_000, in_trees: Collection[str] = ()) -> None:
        self.world = World("a", "b", "c", in_trees=in_trees)
        self.world.limit(a=each, b=each, c=each)
        self.world.say(url("c"), {"g": Amounts(each)})
        self.world.write()
        self.lost = self.world.sidecars.pop("c")
        for steering in self.world.sidecars.values():
            steering.set_members(["a", "b"])
        self.world.limit(a=3 * each // 2, b=3 * each // 2)

    def rates(self, intervals: int) -> dict[str, int]:
        """Return the messages per second of each broker after some intervals."""
        found: dict[str, int] = {}
        for _ in range(intervals):
            rows = {
                name: row.get("g", Amounts()).messages for name, row in self.world.table.items()
            }
            total = sum(rows.values())
            found = {x: 2 * pulsars_quota(C // 2, rows.get(url(x), 0), total) for x in "abc"}
            self.world.say(url("c"), {"g": Amounts(found["c"])})
            self.world.now_ns += S
            self.world.write(2)
        return found


@pytest.mark.parametrize(
    ("each", "in_trees", "off"), [(1_000, (), 10), (100, ("g",), 4)], ids=["alone", "in a tree"]
)
def test_a_broker_whose_sidecar_died_keeps_an_equal_part(
    each: int, in_trees: tuple[str, ...], off: int
) -> None:
    """One of the other sidecars writes in its name, for as long as it takes.

    In a tree all brokers together keep to the group's part, though its record has room for all of it.
    """
    orphaned = Orphaned(each, in_trees)
    for _ in range(20):
        rates = orphaned.rates(1)
        assert all(abs(rate - each) <= off for rate in rates.values()), rates


class Stalled:
    """Three brokers and a new group; the sidecar of c dies at once, and its session goes on.

    Clients come to c only then. Each interval all brokers compute their quotas, use them up and report.
    """

    def __init__(self, *, had_an_entry: bool) -> None:
        self.world = World("a", "b", "c")
        self.world.limit(a=1_000, b=1_000)
        if had_an_entry:
            self.world.limit(c=1_000)
        else:
            # It writes, of another group only.
            self.world.say(url("c"), {"other": Amounts(1)}, "c")
        self.world.write()
        self.world.say(url("c"), {"g": Amounts(0)})
        self.world.sidecars.pop("c")

    def rates(self, seconds: int) -> Iterator[int]:
        """Yield the messages per second of c, second by second."""
        rows = self.world.table
        for _ in range(seconds):
            total = sum(row.get("g", Amounts()).messages for row in rows.values())
            mine = rows[url("c")].get("g", Amounts()).messages
            rate = 2 * pulsars_quota(C // 2, mine, total)
            yield rate
            for name in "abc":
                self.world.say(url(name), {"g": Amounts(rate if name == "c" else 1_000)})
            self.world.write(5)


@pytest.mark.parametrize("had_an_entry", [True, False])
def test_a_broker_whose_sidecar_has_just_died_keeps_its_part(had_an_entry: bool) -> None:
    """Its own first report would leave it two messages a second until the session of its sidecar ends."""
    rates = list(Stalled(had_an_entry=had_an_entry).rates(6))
    assert all(abs(rate - 1_000) <= 10 for rate in rates[3:]), rates


def test_a_broker_whose_sidecar_died_before_it_knew_the_demand_gets_its_part() -> None:
    """Its last entry is a message a second, and its first report is of thousands."""
    stalled = Stalled(had_an_entry=True)
    world = stalled.world
    world.say(url("c"), {"g": Amounts(1)}, "c")
    world.say(url("c"), {"g": Amounts(9_000)})
    world.now_ns += S
    world.write(5)
    assert all(abs(quota - 500) <= 20 for quota in world.quotas().values()), world.quotas()


def test_a_report_of_a_broker_that_it_stands_in_for_is_written_over_at_once() -> None:
    """As one of its own broker is, and only while it stands in; an echo of its own entry is not."""
    stalled = Stalled(had_an_entry=True)
    list(stalled.rates(3))
    world = stalled.world
    said = Statement(url("c"), {"g": Amounts(9)}, "", "c")
    assert world.sidecars["a"].take(said, world.now_ns)
    assert not world.sidecars["b"].take(said, world.now_ns)
    echo = Statement(url("c"), {"g": Amounts(1_000)}, "a", "a", stands_in=True)
    assert not world.sidecars["a"].take(echo, world.now_ns)
    world.say(url("c"), {"g": Amounts(1_000)}, "c")
    world.write(1)
    assert not world.sidecars["a"].take(said, world.now_ns)


def test_what_a_broker_does_not_name_it_has_forgotten() -> None:
    """Two intervals and a second after something was attached; while the topic is heard."""
    world = World("a")
    world.limit(a=C)
    world.write()
    a = world.sidecars["a"]
    attached_ns = {"g": world.now_ns}
    for _ in range(20):
        assert a.forgotten(attached_ns, world.now_ns) == frozenset()
        world.write(1)
        world.now_ns -= S // 20
    world.write()
    assert a.forgotten(attached_ns, world.now_ns) == {"g"}, "a broker that knows no group is silent"

    said = Statement(url("a"), {}, "", "p", named=frozenset({"h"}))
    a.take(said, world.now_ns)
    assert a.forgotten(attached_ns, world.now_ns) == {"g"}
    a.take(replace(said, named=frozenset({"g", "h"})), world.now_ns)
    assert a.forgotten(attached_ns, world.now_ns) == frozenset()
    assert a.forgotten(attached_ns, world.now_ns + 60 * S) == frozenset(), "it hears nothing at all"


def test_a_saturated_broker_that_gives_way_to_an_orphan_is_known_to_be_held() -> None:
    """It passes two thirds of its limit, the whole of its quota, and wants more all the same."""
    orphaned = Orphaned()
    orphaned.rates(5)
    world = orphaned.world
    a = world.sidecars["a"]
    for _ in range(8):
        world.now_ns += S // 2
        a.count({"t/n": NamespaceCount(500, producers=1, throttles=5)}, S // 2, world.now_ns)
        world.write(1)
    assert a.views()[0].part[0] == 1_500
    assert a.views()[0].held_permille[0] == 1_000


def test_one_sidecar_alone_stands_in() -> None:
    """That of the first broker by name; if that one dies as well, the next."""
    orphaned = Orphaned()
    orphaned.rates(1)
    world = orphaned.world
    rows = {x: dict(world.sidecars[x].to_write(world.now_ns)) for x in "ab"}
    assert url("c") in rows["a"]
    assert url("c") not in rows["b"]

    world.say(url("a"), {"g": Amounts(1_000)})
    world.say(url("c"), {"g": Amounts(1_000)})
    world.sidecars["b"].set_members(["b"])
    assert {url("a"), url("c")} <= dict(world.sidecars["b"].to_write(world.now_ns)).keys()


def test_a_sidecar_that_starts_again_takes_nothing_away_from_its_broker() -> None:
    """Its first limit is its arrival reserve; its entry follows once it leaves three quarters."""
    world = Orphaned().world
    started = Steering()
    started.configure(url("c"), 1)
    started.set_members(["a", "b", "c"])
    started.set_whole({"g": Rates(publish_messages=C)})
    started.set_attachments(Attachments({}, {"t/n": "g"}))
    world.see_records(started)
    world.sidecars["c"] = started
    started.start(world.now_ns)
    world.limit(c=60)
    world.write()
    assert not started.writes(), "its broker was not heard"

    world.say(url("c"), {"g": Amounts(1_000)})
    world.write()
    assert not started.writes()
    assert world.table[url("c")]["g"].messages > 900

    world.limit(a=1_000, b=1_000, c=1_000)
    world.write()
    assert started.writes()
    assert world.quotas() == {"a": 500, "b": 500, "c": 500}


@pytest.mark.parametrize(("is_busy", "after_s"), [(True, 10), (False, 2)], ids=["busy", "idle"])
def test_a_sidecar_writes_some_seconds_after_its_start_in_any_case(
    is_busy: bool, after_s: int
) -> None:
    """A limit that was lowered while it was away is enforced; a broker with traffic is heard by then."""
    world = World("a", "b")
    world.sidecars["a"].start(world.now_ns)
    world.limit(a=60, b=C - 60)
    if is_busy:
        world.say(url("a"), {"g": Amounts(1_000)})
    world.write()
    assert not world.sidecars["a"].writes()
    world.now_ns += after_s * S
    world.write()
    assert world.table[url("a")]["g"] == Amounts(60)


def test_a_group_that_is_made_after_the_start_has_its_entry_at_once() -> None:
    """Clients use more than its limit until then, of which the first entry takes most away."""
    world = World("a")
    started = Steering()
    started.configure(url("a"), 1)
    started.set_members(["a"])
    started.set_whole({"g": Rates(publish_messages=C)})
    started.start(world.now_ns)
    started.set_attachments(Attachments({}, {"t/n": "g"}))
    world.see_records(started)
    world.sidecars["a"] = started
    world.limit(a=C)
    world.say(url("a"), {"g": Amounts(10 * C)})
    world.write(1)
    assert world.table[url("a")]["g"] == Amounts(C)


def test_a_broker_behind_a_gate_shares_the_limit() -> None:
    """It reports what it uses itself; the others' quotas are what they are due all the same."""
    world = World("a", "b")
    world.limit(a=1_000, b=1_000)
    world.say("pulsar://gated:6650", {"g": Amounts(1_000)})
    world.write()
    assert world.quotas() == {"a": 500, "b": 500}
    world.say("pulsar://gated:6650", {"g": Amounts(10)})
    world.write()
    assert abs(world.quotas()["a"] - 500) <= 1


def test_an_entry_behind_a_gate_is_above_the_gates_limit() -> None:
    """The margin raises entry and record, and a native broker's quota in the same cluster stays exact."""
    gated = Steering(margin_permille=200, behind_gate=True)
    native = Steering(margin_permille=200)
    native.start(-60 * S)
    for name, steering in (("a", gated), ("b", native)):
        steering.configure(url(name), 1)
        steering.set_members(["a", "b"])
        steering.set_whole({"g": Rates(publish_messages=C)})
        steering.set_attachments(Attachments({}, {"t/n": "g"}))
        steering.set_limits("g", Rates(publish_messages=1_500))
        assert steering.records() == {"g": Record(1_800, -1)}
        steering.decide(S)
    assert dict(gated.to_write(S))[url("a")]["g"].messages == 1_800
    assert dict(native.to_write(S))[url("b")]["g"].messages == 1_500


def test_a_trimmed_broker_gets_less_and_nobody_gets_it() -> None:
    """Its part is in the rest."""
    world = World("a", "b")
    world.limit(a=1_500, b=1_500)
    world.write()
    for step in range(26):
        count = NamespaceCount(messages=800, producers=1, throttles=30)
        world.sidecars["a"].count({"t/n": count}, S // 2, step * S // 2)
    world.write()
    quotas = world.quotas()
    assert 690 <= quotas["a"] <= 715
    assert quotas["b"] == 750


def test_every_limit_of_several_groups_holds() -> None:
    """A native group stands for each set of them, its part computed from all."""
    steering = Steering(cluster_group="all")
    steering.configure(url("a"), 1)
    steering.set_whole({"g": Rates(publish_messages=100), "all": Rates(publish_messages=300)})
    steering.set_namespaces(["t/free"])
    steering.set_attachments(Attachments({}, {"t/n": "g"}))
    for group, limit in (("g", 100), ("all", 300)):
        steering.set_limits(group, Rates(publish_messages=limit))
    busy = NamespaceCount(messages=500, producers=1, throttles=50)
    steering.count({"t/n": busy, "t/free": busy}, S, S)
    steering.decide(S)
    parts = {view.name: view.part[0] for view in steering.views()}

    assert parts == {"all-of=g=all": 100, "all": 200}
    assert steering.records() == {"all-of=g=all": Record(60, -1), "all": Record(180, -1)}
    assert steering.attachments() == {"t/free": "all", "t/n": "all-of=g=all"}


def test_traffic_counts_against_every_group_of_its_namespace() -> None:
    """A client waits for the group that binds."""
    steering = Steering(cluster_group="all")
    steering.configure(url("a"), 1)
    steering.set_attachments(Attachments({}, {"t/n": "g"}))
    steering.set_limits("g", Rates(publish_messages=100))
    steering.set_limits("all", Rates(publish_messages=10_000))
    steering.decide(0)
    steering.collect(S)
    connected = steering.count(
        {"t/n": NamespaceCount(messages=100, bytes=1_000, producers=2, throttles=50)}, S, S
    )
    steering.decide(S)
    traffic = {(t.group, t.monitoring_class): t for t in steering.collect(2 * S)}

    assert connected == {"g": (2, 0), "all": (2, 0)}
    own = traffic["g", MonitoringClass.PUBLISH]
    assert 100 <= own.messages <= 130, (
        "what passes at the limit, and some of what was counted before"
    )
    assert (own.bytes, own.participants) == (1_000, 2)
    assert own.messages_held_ns == S
    assert traffic["all", MonitoringClass.PUBLISH].messages_held_ns == 0


def test_nothing_is_written_before_limits_are_known() -> None:
    """The broker's own report stands until then; and what is detached is set to nothing, once."""
    world = World("a")
    world.write()
    assert world.table == {}
    world.limit(a=C)
    world.write()
    world.sidecars["a"].set_attachments(Attachments())
    world.write(1)
    assert world.table[url("a")]["g"] == Amounts()
    assert list(world.sidecars["a"].to_write(world.now_ns)) == []


def test_two_hundred_groups_at_once() -> None:
    """One row holds them all."""
    groups = {f"g{number}": C + number for number in range(200)}
    steering = Steering()
    steering.configure(url("a"), 1)
    steering.start(-60 * S)
    steering.set_whole({name: Rates(publish_messages=limit) for name, limit in groups.items()})
    steering.set_attachments(Attachments({}, {f"t/{name}": name for name in groups}))
    for name, limit in groups.items():
        steering.set_limits(name, Rates(publish_messages=limit))
    steering.decide(S)
    ((_, row),) = steering.to_write(S)
    assert {name: amounts.messages for name, amounts in row.items()} == groups


def test_records_have_no_headroom_where_the_broker_reads_no_entries() -> None:
    """The rest would not keep it there; with headroom there is room for what makes up for losses, too."""
    steering = Steering(headroom_permille=1_000)
    steering.set_whole({"g": Rates(publish_messages=C)})
    steering.set_attachments(Attachments({}, {"t/n": "g"}))
    steering.configure(url("a"), 1)
    assert steering.records()["g"].messages == C * MOST_PERMILLE // WHOLE
    steering.configure(url("a"), 1, reads_entries=False)
    assert steering.records()["g"].messages == C // 2

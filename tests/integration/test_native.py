"""Pulsar's own limiter, steered: real brokers, real clients, and nothing between them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import copy

import pytest

from coordinator.native.engine.table import REST
from tests.integration.native_world import LIMIT, RECORD, Native
from tests.integration.world import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

_OFFERED = 2_000
"""Per second and broker: more than any part, and little more, as the machine has the clients, too."""

_SHARED, _GUARANTEE = 900, 600
"""The limit of a tree, and what one of its two groups is guaranteed."""

_GATED = "broker-1"
_MARGIN = 0.2


@pytest.fixture
def mixed(native: Native) -> Iterator[Native]:
    """The same brokers; the first one has a gate and its own limiter behind it, the others that alone."""
    native.configure({"native_margin": _MARGIN})
    native.configure({"native_margin": _MARGIN, "enforcement_path": "gate+native"}, _GATED)
    native.sidecars.stop()
    native.sidecars.start()
    native.gated = frozenset({_GATED})
    yield native
    native.gated = frozenset()
    native.configure({})
    native.sidecars.stop()
    native.sidecars.start()


def test_the_limit_holds_and_is_shared(native: Native) -> None:
    """The brokers know nothing of us; a joiner gets its share, a leaver's goes to the others."""
    with native.load({"broker-1": _OFFERED, "broker-2": _OFFERED}):
        native.comes_to({"broker-1": 1_500, "broker-2": 1_500}, within=0.05)
        with native.load({"broker-3": _OFFERED}):
            native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)
        native.comes_to({"broker-1": 1_500, "broker-2": 1_500}, within=0.05)
    # One that sidecars with a margin have left is lowered once no client publishes.
    eventually(lambda: native.record() == RECORD, "the record without a margin")


def test_without_writers_the_sum_stays(native: Native) -> None:
    """Plain PIP-82 goes on from a fair start, and a sidecar that is back shares again."""
    with native.load(dict.fromkeys(native.by_broker, _OFFERED)):
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)
        native.sidecars.stop()
        try:
            time.sleep(5)
            sums = [sum(native.rates(20.0).values())]
            while max(sums) < 0.95 * LIMIT and len(sums) < 3:  # a machine that stood still
                sums.append(sum(native.rates(20.0).values()))
        finally:
            native.sidecars.start()
        assert max(sums) <= 1.05 * LIMIT, sums
        assert max(sums) >= 0.95 * LIMIT, sums
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)


def test_what_others_change_is_set_again(native: Native) -> None:
    """The sidecar that sees the change twice first sets it again, and tells it."""
    eventually(lambda: native.records_seen() == {RECORD}, "all sidecars have seen the record")
    url = f"{native.cluster.web_url()}/admin/v2/resourcegroups/native"
    assert native.http.put(url, json={"publishRateInMsgs": 77_777}).is_success
    eventually(lambda: "edited" in native.conditions(), "a sidecar tells of the edit")
    eventually(lambda: native.record() == RECORD, "the record is set again")


def test_a_stranger_on_the_topic_is_named_and_written_over(native: Native) -> None:
    """A stranger that writes in a broker's name ten times a second changes each part by little."""
    with native.load(dict.fromkeys(native.by_broker, _OFFERED)):
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)
        with native.stranger_in_the_name_of("broker-1", messages=1):
            eventually(lambda: "stranger" in native.conditions(), "a sidecar names the stranger")
            native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.1)
        told = native.conditions()["stranger"]
    assert "evil" in told
    assert native.service_url("broker-1") in told


def test_a_stranger_in_the_name_of_the_rest_is_named_and_written_over(native: Native) -> None:
    """As much again as the limit in that name would leave each broker half of its part."""
    with native.load(dict.fromkeys(native.by_broker, _OFFERED)):
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)
        with native.stranger_in_the_name_of(REST, messages=LIMIT):
            eventually(lambda: REST in native.conditions().get("stranger", ""), "it is named")
            native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.1)


def test_groups_that_do_not_exist_change_nothing(native: Native) -> None:
    """30,000 invented names are more than a sidecar remembers; it tells of their writer."""
    with native.load(dict.fromkeys(native.by_broker, _OFFERED)):
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)
        native.invent("broker-1", groups=30_000)
        eventually(lambda: "inventor" in native.conditions().get("stranger", ""), "it is named")
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)


def test_a_broker_that_is_not_there_is_named(native: Native) -> None:
    """A report in its name costs the others its share; without more reports its entry is cleared."""
    with native.load(dict.fromkeys(native.by_broker, _OFFERED)):
        with native.stranger_in_the_name_of("pulsar://nowhere:6650", messages=1_000):
            eventually(
                lambda: "nowhere" in native.conditions().get("unsteered", ""),
                "a sidecar names the broker",
            )
            assert sum(native.rates(5.0).values()) <= 1.05 * LIMIT
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)


def test_given_back_pulsars_own_groups_go_on(native: Native) -> None:
    """`pulsar-quota native off` refuses while sidecars run; then the record is the limit."""
    native.configure({"native_headroom": 0.0})
    native.sidecars.stop()
    native.sidecars.start()
    eventually(lambda: native.record() == LIMIT // 2, "the record without headroom")
    refused = native.off()
    assert refused.returncode == 1
    assert "broker-1" in refused.stderr
    native.sidecars.stop()
    eventually(lambda: native.off().returncode == 0, "it is given back")
    assert native.record() == LIMIT
    assert "Nothing" in native.off().stdout or "rest" in native.off().stdout
    native.configure({})
    native.sidecars.start()
    eventually(lambda: native.record() == RECORD, "the record is native again")


def test_a_gate_and_brokers_without_one_share_a_limit(mixed: Native) -> None:
    """Each broker has its third, by its gate or by its own limiter, and the sum is the limit."""
    fair = dict.fromkeys(mixed.by_broker, LIMIT / 3)
    with mixed.load(dict.fromkeys(mixed.by_broker, _OFFERED)):
        shares = mixed.comes_to(fair, within=0.05, window_s=20)
    assert sum(shares.values()) <= 1.02 * LIMIT, shares


@pytest.fixture
def tree(native: Native) -> Iterator[Native]:
    """The same brokers with a tree: web's topics at two of them, those of orders at the third."""
    groups, topics = "/admin/v2/resourcegroups", {}
    native.api("PUT", f"{groups}/shop", {"publishRateInMsgs": _SHARED})
    native.api("PUT", f"{groups}/web", {"parent": "shop"})
    claim = {"parent": "shop", "publishGuaranteeInMsgs": _GUARANTEE}
    native.api("PUT", f"{groups}/orders", claim)
    for group in ("web", "orders"):
        native.topics.create_namespace(f"native/of-{group}", 12)
        native.api("POST", f"/admin/v2/namespaces/native/of-{group}/resourcegroup/{group}")
        topics[group] = native.topics.one_for_each_broker(f"native/of-{group}", "t", "persistent")
    at = {"broker-1": "web", "broker-2": "web", "broker-3": "orders"}
    shared = copy(native)
    shared.by_broker = {broker: topics[group][broker] for broker, group in at.items()}
    yield shared
    for group in ("web", "orders"):
        native.api("DELETE", f"/admin/v2/namespaces/native/of-{group}/resourcegroup")
        native.api("DELETE", f"{groups}/{group}")
    native.api("DELETE", f"{groups}/shop")


def test_an_idle_guarantee_is_borrowed_and_claimed_back_without_gates(tree: Native) -> None:
    """By the brokers' counters, in windows of ten seconds; web has no client where orders comes.

    A child whose guarantee the tree cannot keep is refused before and changes nothing.
    """
    url = tree.sidecars.admin_url("broker-2") + "/admin/v2/resourcegroups/greedy"
    greedy = {"parent": "shop", "publishGuaranteeInMsgs": _SHARED - _GUARANTEE + 1}
    refused = tree.http.put(url, json=greedy)
    assert (refused.status_code, "add up to 901" in refused.text) == (400, True), refused.text
    with tree.load({"broker-1": _SHARED, "broker-2": _SHARED}):
        half = _SHARED / 2
        tree.comes_to({"broker-1": half, "broker-2": half, "broker-3": 0}, within=0.05)
        with tree.load({"broker-3": 2 * _SHARED}):
            claimed = _GUARANTEE + (_SHARED - _GUARANTEE) / 2
            each = (_SHARED - claimed) / 2
            tree.comes_to({"broker-1": each, "broker-2": each, "broker-3": claimed}, within=0.05)


def test_a_claimed_guarantee_is_back_within_three_intervals(tree: Native) -> None:
    """Of three claims the second best; the two seconds after that show whether it is there."""
    claimed = _GUARANTEE + (_SHARED - _GUARANTEE) / 2
    with tree.load({"broker-1": _SHARED, "broker-2": _SHARED}):
        found = sorted(_claimed_after(tree, 3.0) for _ in range(3))
    assert found[1] >= 0.95 * claimed, found


def _claimed_after(tree: Native, seconds: float) -> float:
    """Return what the third broker's clients pass per second, this long after their first message."""
    borrowed = _SHARED / 2
    tree.comes_to({"broker-1": borrowed, "broker-2": borrowed, "broker-3": 0}, within=0.05)
    before = tree.counts()["broker-3"]
    with tree.load({"broker-3": 2 * _SHARED}):
        eventually(lambda: tree.counts()["broker-3"] > before, "the first message has passed")
        time.sleep(seconds)
        return tree.rates(2.0)["broker-3"]


def test_clients_past_the_gate_find_the_brokers_own_limiter(mixed: Native) -> None:
    """They pass no more than the margin above what the gate's clients may."""
    with mixed.load({_GATED: 2 * LIMIT}, past_gates=True):
        past = mixed.rates(15.0)
    assert past[_GATED] <= 1.05 * (1 + _MARGIN) * LIMIT, past

"""Pulsar's own limiter, steered: real brokers, real clients, and nothing between them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.integration.native_world import LIMIT, Native, opened
from tests.integration.world import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

_OFFERED = 2_000
"""Per second and broker: more than any part, and little more, as the machine has the clients, too."""

_GATED = "broker-1"
_MARGIN = 0.2


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """Three brokers with the two lines in broker.conf, and their sidecars."""
    with opened(tmp_path_factory.mktemp("native")) as world:
        yield world


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
    assert native.record() == LIMIT // 2


def test_without_writers_the_sum_stays(native: Native) -> None:
    """Plain PIP-82 goes on from a fair start, and a sidecar that is back shares again."""
    with native.load(dict.fromkeys(native.by_broker, _OFFERED)):
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)
        native.sidecars.stop()
        time.sleep(5)
        assert abs(sum(native.rates(20.0).values()) - LIMIT) <= 0.05 * LIMIT
        native.sidecars.start()
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)


def test_what_others_change_is_set_again(native: Native) -> None:
    """The sidecar that sees the change twice first sets it again, and tells it."""
    eventually(lambda: native.record() == LIMIT // 2, "the record is set")
    url = f"{native.cluster.web_url()}/admin/v2/resourcegroups/native"
    assert native.http.put(url, json={"publishRateInMsgs": 77_777}).is_success
    eventually(lambda: "edited" in native.conditions(), "a sidecar tells of the edit")
    eventually(lambda: native.record() == LIMIT // 2, "the record is set again")


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


def test_a_broker_that_is_not_there_is_named(native: Native) -> None:
    """A report in its name costs the others its share; without more reports its entry is cleared."""
    with native.load(dict.fromkeys(native.by_broker, _OFFERED)):
        with native.stranger_in_the_name_of("pulsar://nowhere:6650", messages=1_000):
            eventually(lambda: "unsteered" in native.conditions(), "a sidecar names the broker")
            assert "nowhere" in native.conditions()["unsteered"]
            assert sum(native.rates(5.0).values()) <= 1.05 * LIMIT
        native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)


def test_given_back_pulsars_own_groups_go_on(native: Native) -> None:
    """`pulsar-quota native off` refuses while sidecars run; then the record is the limit."""
    refused = native.off()
    assert refused.returncode == 1
    assert "broker-1" in refused.stderr
    native.sidecars.stop()
    eventually(lambda: native.off().returncode == 0, "it is given back")
    assert native.record() == LIMIT
    assert "Nothing" in native.off().stdout or "rest" in native.off().stdout
    native.sidecars.start()
    eventually(lambda: native.record() == LIMIT // 2, "the record is native again")


def test_a_gate_and_brokers_without_one_share_a_limit(mixed: Native) -> None:
    """Each broker has its third, by its gate or by its own limiter, and the sum is the limit."""
    fair = dict.fromkeys(mixed.by_broker, LIMIT / 3)
    with mixed.load(dict.fromkeys(mixed.by_broker, _OFFERED)):
        mixed.comes_to(fair, within=0.05)
        shares = mixed.rates(20.0)
    assert min(shares.values()) >= 0.95 * LIMIT / 3, shares
    assert sum(shares.values()) <= 1.02 * LIMIT, shares


def test_clients_past_the_gate_find_the_brokers_own_limiter(mixed: Native) -> None:
    """They pass no more than the margin above what the gate's clients may."""
    with mixed.load({_GATED: 2 * LIMIT}, past_gates=True):
        past = mixed.rates(15.0)
    assert past[_GATED] <= 1.05 * (1 + _MARGIN) * LIMIT, past

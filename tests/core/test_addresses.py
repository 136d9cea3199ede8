"""Known brokers: which address leads to which gate."""

from __future__ import annotations

import pytest

from coordinator.core.addresses import (
    DEPARTED_MAX,
    NO_GATE,
    AddressMap,
    BrokerRegistration,
    KnownBrokers,
    ServiceUrls,
    ways_to,
)


def broker(
    host: str, gate: ServiceUrls | None = None, internal: ServiceUrls | None = None
) -> BrokerRegistration:
    """A broker with a gate beside it, unless another is given."""
    own = internal or ServiceUrls(f"pulsar://{host}:6650", f"pulsar+ssl://{host}:6651")
    before = gate or ServiceUrls(f"pulsar://{host}:6652", f"pulsar+ssl://{host}:6653")
    return BrokerRegistration(f"{host}:8080", own, {"internal": own, "external": before})


A, B = broker("a"), broker("b")


@pytest.fixture
def known() -> KnownBrokers:
    """No broker yet; the gates' listener is ``external``."""
    return KnownBrokers("external")


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("pulsar://a:6652", "pulsar://a:6652"),
        ("pulsar+ssl://b:6653", "pulsar+ssl://b:6653"),
        ("pulsar://b:6650", "pulsar://b:6652"),
        ("pulsar+ssl://a:6651", "pulsar+ssl://a:6653"),
        # An operator may advertise more ports, and none of them but the gate's has limits.
        ("pulsar://office:6650", "pulsar://a:6652"),
    ],
    ids=["gate", "gate with TLS", "internal", "internal with TLS", "other listener"],
)
def test_an_address_of_a_broker_becomes_that_of_the_gate_before_it(
    known: KnownBrokers, named: str, told: str
) -> None:
    """The gate's own is told as it is."""
    listeners = {**A.listeners, "office": ServiceUrls("pulsar://office:6650")}

    found = known.update([BrokerRegistration(A.broker, A.internal, listeners), B])

    assert found.gate_for(named) == told


def test_the_address_of_a_broker_without_a_gate_is_told_to_no_client(known: KnownBrokers) -> None:
    """Where only a gate with TLS is there, the plain address is not told either."""
    bare = BrokerRegistration("c:8080", ServiceUrls("pulsar://c:6650"))
    encrypted = broker("d", gate=ServiceUrls(tls="pulsar+ssl://d:6653"))

    found = known.update([A, bare, encrypted])

    assert found.gate_for("pulsar://c:6650") == NO_GATE
    assert found.gate_for("pulsar://d:6650") == NO_GATE
    assert found.gate_for("pulsar+ssl://d:6651") == "pulsar+ssl://d:6653"
    assert known.without_gate() == ("c:8080",)


@pytest.mark.parametrize("url", ["pulsar://z:6650", "pulsar://a:6652/", "PULSAR://a:6652", ""])
def test_an_address_that_no_broker_has_registered_is_unknown(known: KnownBrokers, url: str) -> None:
    """One in another spelling, too: brokers write what they register."""
    assert known.update([A]).gate_for(url) is None


def test_an_only_address_may_be_that_of_the_gate(known: KnownBrokers) -> None:
    """A broker whose single listener leads to its gate uses the gate itself."""
    gate = ServiceUrls("pulsar://a:6652")

    found = known.update([BrokerRegistration("a:8080", gate, {"external": gate})])

    assert found.gate_for("pulsar://a:6652") == "pulsar://a:6652"
    assert known.without_gate() == ()


def test_a_broker_that_is_gone_keeps_its_addresses(known: KnownBrokers) -> None:
    """The others name it until they know."""
    known.update([A, B])

    found = known.update([B])

    assert found.gate_for("pulsar://a:6652") == "pulsar://a:6652"
    assert found.gate_for("pulsar://a:6650") == "pulsar://a:6652"


def test_a_broker_that_comes_back_elsewhere_has_its_new_addresses_only(known: KnownBrokers) -> None:
    """They are what it registered last."""
    known.update([A, B])
    known.update([B])
    moved = broker("a", gate=ServiceUrls("pulsar://new:6652"))

    found = known.update([moved, B])

    assert found.gate_for("pulsar://a:6650") == "pulsar://new:6652"
    assert found.gate_for("pulsar://a:6652") is None


def test_an_address_that_changed_hands_is_what_its_present_owner_says_of_it(
    known: KnownBrokers,
) -> None:
    """The address of a gate that is gone may be a broker's own now."""
    known.update([A])
    heir = broker("b", internal=ServiceUrls("pulsar://a:6652"))

    found = known.update([heir])

    assert found.gate_for("pulsar://a:6652") == "pulsar://b:6652"


def test_a_departed_broker_without_a_gate_is_not_told_of(known: KnownBrokers) -> None:
    """An operator cannot mend it."""
    known.update([BrokerRegistration("c:8080", ServiceUrls("pulsar://c:6650"))])
    known.update([A])

    assert known.without_gate() == ()


def test_a_bounded_number_of_departed_brokers_is_kept(known: KnownBrokers) -> None:
    """Those that departed first are forgotten first."""
    for number in range(DEPARTED_MAX + 1):
        known.update([broker(f"n{number}")])
    found = known.update([A])

    assert found.gate_for("pulsar://n0:6652") is None
    assert found.gate_for("pulsar://n1:6652") == "pulsar://n1:6652"


def test_while_no_broker_is_known_only_the_own_brokers_address_is_kept_back() -> None:
    """The brokers' metadata may be where the sidecar cannot read them."""
    unknown = AddressMap(own_broker=ways_to("127.0.0.1:16650"))

    assert not unknown.is_known
    assert unknown.gate_for("pulsar://127.0.0.1:16650") == NO_GATE
    assert unknown.gate_for("pulsar+ssl://127.0.0.1:16650") == NO_GATE
    assert unknown.gate_for("pulsar://elsewhere:6650") == "pulsar://elsewhere:6650"

"""The courier of addresses: what the gate is given, and what an operator is told."""

from __future__ import annotations

import structlog

from coordinator.app.addresses import AddressCourier
from coordinator.core.addresses import AddressMap, BrokerRegistration, ServiceUrls
from coordinator.insight.model.conditions import ConditionKind

INTERNAL, GATE = ServiceUrls("pulsar://a:6650"), ServiceUrls("pulsar://a:6652")
A = BrokerRegistration("a:8080", INTERNAL, {"external": GATE})
C = BrokerRegistration("c:8080", ServiceUrls("pulsar://c:6650"), {"external": GATE})
BARE = BrokerRegistration("b:8080", ServiceUrls("pulsar://b:6650"))


class AddressedGate:
    """A gate that remembers the maps that it was given."""

    def __init__(self) -> None:
        self.maps: list[AddressMap] = []

    def set_addresses(self, addresses: AddressMap) -> None:
        """Remember the map."""
        self.maps.append(addresses)


async def test_the_gate_gets_the_map_when_it_changes_and_only_then() -> None:
    """A broker that leaves changes nothing."""
    gate = AddressedGate()
    courier = AddressCourier(gate.set_addresses, "external", lambda: None)
    assert not courier.informed.is_set()

    courier.changed((A,))
    courier.changed((A,))
    courier.changed(())
    assert courier.informed.is_set()
    assert [found.gate_for("pulsar://a:6650") for found in gate.maps] == ["pulsar://a:6652"]

    courier.changed((A, BARE))
    assert [found.gate_for("pulsar://b:6650") for found in gate.maps] == [None, ""]


async def test_without_the_name_of_the_gates_listener_nothing_is_checked() -> None:
    """The operator says so with an empty gate_listener_name; the gate opens all the same."""
    gate = AddressedGate()
    courier = AddressCourier(gate.set_addresses, "", lambda: None)

    courier.changed((A, BARE))

    assert gate.maps == []
    assert courier.informed.is_set()


async def test_the_log_names_each_broker_without_a_gate_once() -> None:
    """It names the missing listener, too."""
    courier = AddressCourier(AddressedGate().set_addresses, "gates", lambda: None)
    with structlog.testing.capture_logs() as lines:
        courier.changed((A,))
        courier.changed((A,))
        courier.changed((A, BARE))

    assert [(line["brokers"], line["listener"]) for line in lines] == [
        (("a:8080",), "gates"),
        (("a:8080", "b:8080"), "gates"),
    ]


async def test_brokers_without_a_gate_are_a_condition_for_as_long_as_they_are_there() -> None:
    """By the broker, and with the listener that it lacks; none where nothing is checked."""
    courier = AddressCourier(AddressedGate().set_addresses, "external", lambda: None)
    courier.changed((A, BARE))

    (found,) = courier.conditions(0)
    assert (found.kind, found.subject) == (ConditionKind.WITHOUT_GATE, "b:8080")
    assert found.sentence.startswith("the broker b:8080 advertises no listener external, so")
    courier.changed((A,))
    assert list(courier.conditions(0)) == []
    unchecked = AddressCourier(AddressedGate().set_addresses, "", lambda: None)
    unchecked.changed((A, BARE))
    assert list(unchecked.conditions(0)) == []


async def test_fewer_sidecars_than_advertised_gates_are_a_condition() -> None:
    """Brokers without a gate do not count, nor is anything told while the sidecars are not known."""
    running: list[int | None] = [None]
    courier = AddressCourier(AddressedGate().set_addresses, "external", lambda: running[0])
    courier.changed((A, C))
    assert list(courier.conditions(0)) == []
    running[0] = 1

    (found,) = courier.conditions(0)
    assert (found.kind, found.subject) == (ConditionKind.WITHOUT_SIDECAR, "external")
    assert found.sentence.startswith(
        "2 brokers advertise the listener external, but the number of sidecars is 1"
    )
    courier.changed((A, BARE))
    assert [each.kind for each in courier.conditions(0)] == [ConditionKind.WITHOUT_GATE]
    courier.changed((A, C))
    running[0] = 2
    assert list(courier.conditions(0)) == []


async def test_a_zookeeper_in_which_no_broker_is_registered_is_told_to_the_log() -> None:
    """The sidecar may look in the wrong place."""
    courier = AddressCourier(AddressedGate().set_addresses, "external", lambda: None)
    with structlog.testing.capture_logs() as lines:
        courier.changed(())

    (line,) = lines
    assert "zookeeper_brokers_path" in line["event"]
    assert courier.informed.is_set()

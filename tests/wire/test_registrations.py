"""A broker's registration, as Pulsar's two load managers write it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.core.addresses import BrokerRegistration, ServiceUrls
from coordinator.wire.documents import DocumentError
from coordinator.wire.registrations import decode_registration

LISTENER = {
    "brokerServiceUrl": "pulsar://a:6652",
    "brokerServiceUrlTls": "pulsar+ssl://a:6653",
    "brokerHttpUrl": None,
    "brokerHttpsUrl": None,
}
REGISTERED: dict[str, Any] = {
    "webServiceUrl": "http://a:8080",
    "webServiceUrlTls": None,
    "pulsarServiceUrl": "pulsar://a:6650",
    "pulsarServiceUrlTls": None,
    "advertisedListeners": {"external": LISTENER},
    "protocols": {},
    "persistentTopicsEnabled": True,
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "cpu": {"usage": 1.5, "limit": 200.0},
    "lastStats": {"public/default/0x00000000_0xffffffff": {"msgRateIn": 0.0}},
}


def decoded(**changes: object) -> BrokerRegistration:
    """A registration with other fields."""
    return decode_registration("a:8080", json.dumps(REGISTERED | changes).encode())


def test_a_registration_has_the_internal_addresses_and_those_of_the_listeners() -> None:
    """The load, which is most of it, is left alone."""
    assert decoded() == BrokerRegistration(
        "a:8080",
        ServiceUrls("pulsar://a:6650"),
        {"external": ServiceUrls("pulsar://a:6652", "pulsar+ssl://a:6653")},
    )


@pytest.mark.parametrize("listeners", [None, {}])
def test_a_broker_may_advertise_no_listener(listeners: object) -> None:
    """Releases write it in two ways."""
    assert decoded(advertisedListeners=listeners).listeners == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "neither pulsarServiceUrl nor pulsarServiceUrlTls is there"),
    ],
)
def test_bytes_that_are_no_registration_are_refused(data: bytes, reason: str) -> None:
    """The node's name makes no registration of them."""
    with pytest.raises(DocumentError, match=reason):
        decode_registration("a:8080", data)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"pulsarServiceUrl": 7}, "pulsarServiceUrl"),
        ({"pulsarServiceUrl": "pulsar://" + "a" * 1024}, "pulsarServiceUrl"),
        ({"advertisedListeners": ["external"]}, "advertisedListeners"),
        ({"advertisedListeners": {str(n): LISTENER for n in range(101)}}, "advertisedListeners"),
        ({"advertisedListeners": {"external": "pulsar://a:6652"}}, "external"),
        (
            {"advertisedListeners": {"external": {"brokerServiceUrl": ["pulsar://a:6652"]}}},
            "brokerServiceUrl",
        ),
    ],
)
def test_a_refusal_names_the_field(changes: dict[str, object], field: str) -> None:
    """An operator finds it in the log."""
    with pytest.raises(DocumentError, match=field):
        decoded(**changes)

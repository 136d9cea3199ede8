"""Addresses that cannot work where they stand: refused before anything is started."""

from __future__ import annotations

import re

import pytest

from coordinator.config import ConfigError, from_mapping
from tests.config.nowhere import DOCUMENT

TLS = {"gate_tls_certificate_file": "c.pem", "gate_tls_key_file": "k.pem"}


@pytest.mark.parametrize(
    ("listens", "upstream"),
    [
        ("127.0.0.1:6651", "127.0.0.1:6651"),
        ("0.0.0.0:6651", "127.0.0.1:6651"),
        ("127.0.0.1:6651", "0.0.0.0:6651"),
        ("0.0.0.0:6651", "localhost:6651"),
        ("[::]:6651", "[::1]:6651"),
        ("[::]:6651", "127.0.0.1:6651"),
        ("[::1]:6651", "[0:0:0:0:0:0:0:1]:6651"),
        ("[::ffff:127.0.0.1]:6651", "127.0.0.1:6651"),
        ("localhost:6651", "[::1]:6651"),
        ("broker-1.example:6651", "Broker-1.example.:6651"),
    ],
)
@pytest.mark.parametrize("key", ["gate_listen", "gate_tls_listen"])
def test_a_gate_that_would_be_its_own_broker_is_refused(
    key: str, listens: str, upstream: str
) -> None:
    """The refusal names the key, the listener that is there, and where the right address stands."""
    keys = {key: listens, "gate_upstream": upstream} | (TLS if key == "gate_tls_listen" else {})
    refused = f"gate_upstream {upstream!r}: the gate itself listens there ({key} {listens!r});"
    with pytest.raises(
        ConfigError, match=f"{re.escape(refused)} name the address .* bindAddresses"
    ):
        from_mapping(DOCUMENT | keys)


@pytest.mark.parametrize(
    ("listens", "upstream"),
    [
        ("0.0.0.0:6652", "127.0.0.1:6651"),
        ("127.0.0.1:6651", "127.0.0.2:6651"),
        ("0.0.0.0:6651", "[::1]:6651"),
        ("[::1]:6651", "127.0.0.1:6651"),
        ("0.0.0.0:6651", "broker-1.example:6651"),
        ("[fd00::1]:6651", "[fd00::2]:6651"),
        ("127.0.0.1:0", "127.0.0.1:0"),
    ],
)
def test_a_broker_at_another_address_of_the_same_port_is_accepted(
    listens: str, upstream: str
) -> None:
    """Two addresses, or one of another machine; port 0 is any that is free."""
    from_mapping(DOCUMENT | {"gate_listen": listens, "gate_upstream": upstream})


@pytest.mark.parametrize(
    "url", ["pulsar://[::1]:6650", "pulsar+ssl://broker-1:6651,[fd00::7]:6651", "pulsar://::1"]
)
def test_a_bus_at_an_ipv6_address_is_refused_before_pulsars_client_does(url: str) -> None:
    """The client calls it an invalid hostname, whose traceback would be all that a sidecar says."""
    with pytest.raises(ConfigError, match=r"bus_service_url .*no IPv6 address.*write a name"):
        from_mapping(DOCUMENT | {"bus_service_url": url})


def test_pulsars_client_takes_no_ipv6_address_in_a_service_url() -> None:
    """If it begins to, the rule above has lost its reason."""
    pulsar = pytest.importorskip("pulsar")
    with pytest.raises(ValueError, match="invalid hostname"):
        pulsar.Client("pulsar://[::1]:6650")

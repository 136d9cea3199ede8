"""A broker's registration in the metadata store, as Pulsar writes it.

Both load managers write the addresses alike: ``LocalBrokerData`` and ``BrokerLookupData``, JSON at
``/loadbalance/brokers/<host:port of the web service>``. Nothing else of it is read.
"""

from __future__ import annotations

from typing import Any, Final

from coordinator.core.addresses import BrokerRegistration, ServiceUrls
from coordinator.wire.documents import DocumentError, json_object

URL_LENGTH_MAX: Final = 1_024
LISTENERS_MAX: Final = 100


def decode_registration(broker: str, data: bytes) -> BrokerRegistration:
    """Read the registration of a broker.

    Raises:
        DocumentError: it is not one that Pulsar writes.
    """
    document = json_object(data)
    listeners = document.get("advertisedListeners") or {}
    if not isinstance(listeners, dict) or len(listeners) > LISTENERS_MAX:
        raise DocumentError(f"advertisedListeners must be an object of at most {LISTENERS_MAX}")
    internal = _urls(document, "pulsarServiceUrl", "pulsarServiceUrlTls")
    if internal == ServiceUrls():
        raise DocumentError("neither pulsarServiceUrl nor pulsarServiceUrlTls is there")
    return BrokerRegistration(
        broker, internal, {name: _listener(name, value) for name, value in listeners.items()}
    )


def _listener(name: str, value: object) -> ServiceUrls:
    if not isinstance(value, dict):
        raise DocumentError(f"advertisedListeners.{name} must be an object, found {value!r:.80}")
    return _urls(value, "brokerServiceUrl", "brokerServiceUrlTls")


def _urls(fields: dict[str, Any], plain: str, tls: str) -> ServiceUrls:
    return ServiceUrls(_url(fields, plain), _url(fields, tls))


def _url(fields: dict[str, Any], key: str) -> str:
    url = fields.get(key) or ""
    if not isinstance(url, str) or len(url) > URL_LENGTH_MAX:
        raise DocumentError(
            f"{key} must be a URL of at most {URL_LENGTH_MAX} characters, found {url!r:.80}"
        )
    return url

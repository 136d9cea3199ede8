"""A configuration of which only the keys matter that a test sets."""

from __future__ import annotations

from coordinator.config import from_mapping

DOCUMENT = {
    "broker_id": "b1",
    "gate_listen": "127.0.0.1:1",
    "gate_upstream": "127.0.0.1:2",
    "broker_web_url": "http://127.0.0.1:3",
    "bus_service_url": "pulsar://127.0.0.1:4",
    "zookeeper_servers": "127.0.0.1:5",
}
"""The settings that a sidecar needs; nothing answers at any of their addresses."""

NOWHERE = from_mapping(DOCUMENT)

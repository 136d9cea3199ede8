"""The configuration of a sidecar: its keys (``model``), the rules between them (``rules``), its files."""

from coordinator.config.forms import ConfigError, address_told, split_address
from coordinator.config.model import Config
from coordinator.config.pulsar_keys import hints
from coordinator.config.reading import document_of, from_mapping, load

__all__ = [
    "Config",
    "ConfigError",
    "address_told",
    "document_of",
    "from_mapping",
    "hints",
    "load",
    "split_address",
]

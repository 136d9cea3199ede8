"""The configuration of a sidecar: its keys (``model``), the rules between them (``rules``), its files."""

from coordinator.config.forms import ConfigError, split_address
from coordinator.config.model import Config
from coordinator.config.pulsar_keys import hints
from coordinator.config.reading import document_of, from_mapping, load

__all__ = [
    "Config",
    "ConfigError",
    "document_of",
    "from_mapping",
    "hints",
    "load",
    "split_address",
]

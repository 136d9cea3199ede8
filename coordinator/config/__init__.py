"""The configuration of a sidecar: its fields (``model``), their rules (``rules``), and its files."""

from coordinator.config.model import Config
from coordinator.config.pulsar_keys import hints
from coordinator.config.reading import document_of, from_mapping, load
from coordinator.config.rules import ConfigError, split_address

__all__ = [
    "Config",
    "ConfigError",
    "document_of",
    "from_mapping",
    "hints",
    "load",
    "split_address",
]

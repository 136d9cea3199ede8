"""The configuration of a sidecar: what it may be (``model``), must be (``rules``), and how it is read."""

from coordinator.config.model import Config
from coordinator.config.reading import from_mapping, load
from coordinator.config.rules import ConfigError, split_address

__all__ = ["Config", "ConfigError", "from_mapping", "load", "split_address"]

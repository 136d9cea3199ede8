"""pulsar-quota: a resource-group quota coordinator for Apache Pulsar (PIP-82)."""

from importlib.metadata import version

__version__ = version("pulsar-quota")

"""pulsar-quota: a resource-group quota coordinator for Apache Pulsar (PIP-82)."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("pulsar-quota")
except PackageNotFoundError:  # shipped to Spark's executors as a bare archive (--py-files)
    __version__ = "unknown"

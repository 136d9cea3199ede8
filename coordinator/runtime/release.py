"""The release of this program; apart, since finding it out takes 5 MB, and the gate does not need it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    RELEASE = version("pulsar-quota")
except PackageNotFoundError:  # shipped to Spark's executors as a bare archive (--py-files)
    RELEASE = "unknown"

"""Which release this is; apart, since to find that out takes 5 MB, and the gate need not know."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    RELEASE = version("pulsar-quota")
except PackageNotFoundError:  # shipped to Spark's executors as a bare archive (--py-files)
    RELEASE = "unknown"

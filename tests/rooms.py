"""The folders of tests that `python -m tests` tells apart."""

from typing import Final

WITH_CLUSTER: Final = tuple(
    f"tests/{room}" for room in ("attacks", "browser", "clients", "contract", "integration")
)
"""All tests that need a cluster, or that run alone, are here: no other folder is searched for them."""

REAL_TIME: Final = tuple(
    f"tests/{room}"
    for room in ("adapters", "app", "browser", "deploy", "gate/process", "gate/server", "runtime")
)
"""Sockets, processes and browsers: a test that gets no processor for a while fails here."""

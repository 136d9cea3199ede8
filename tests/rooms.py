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

ON_JAVA: Final = tuple(f"tests/{room}" for room in ("cli", "decoder", "demo", "spark_jobs"))
"""All tests that need Java and no cluster are here, or in `REAL_TIME`: they share one process."""

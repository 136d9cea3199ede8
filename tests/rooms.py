"""The folders of tests that `python -m tests` tells apart."""

from typing import Final

WITH_CLUSTER: Final = tuple(
    f"tests/{room}" for room in ("attacks", "clients", "contract", "integration")
)
"""All tests that need a cluster are here: no other folder is searched for them."""

ON_JAVA: Final = tuple(f"tests/{room}" for room in ("cli", "decoder", "demo", "spark_jobs"))
"""All tests that need Java and no cluster are here: they share one process."""

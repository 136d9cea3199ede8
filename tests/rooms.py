"""The folders of tests that `python -m tests` tells apart."""

from typing import Final


def _rooms(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/{name}" for name in names)


SERVICES_ALONE: Final = _rooms("attacks", "browser", "clients", "integration")
"""No test here does without a cluster, or it is one of `make verify`."""

WITH_CLUSTER: Final = _rooms("attacks", "clients", "contract", "integration")
"""All tests that need a cluster are here: no other folder is searched for them."""

ON_JAVA: Final = _rooms("cli", "decoder", "demo", "spark_jobs")
"""All tests that need Java and no cluster are here: they share one process."""

COMPUTING: Final = _rooms(
    "benchmarks", "chaos", "cli", "closed_loop", "core", "demo", "insight", "prose", "simulation",
    "spark_jobs", "wire",
)  # fmt: skip
"""About half of the work of the tests that need neither: they run beside the others."""

"""Typical command lines, shown at the end of each command's help."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "conditions": ("pulsar-quota conditions", "pulsar-quota conditions --json"),
    "doctor": (
        "pulsar-quota doctor",
        "pulsar-quota doctor --config sidecar.toml",
        "pulsar-quota doctor --native http://broker-1:8080",
    ),
    "explain": (
        "pulsar-quota explain orders --broker broker-2",
        "pulsar-quota explain orders --at 12:03",
        "pulsar-quota explain orders --dimension publishRateInBytes --history",
    ),
    "import": ("pulsar-quota import --from http://broker:8080",),
    "log-level": ("pulsar-quota log-level debug",),
    "operations": ("pulsar-quota operations", "pulsar-quota operations orders --limit 5"),
    "sidecar": ("pulsar-quota sidecar --config sidecar.toml",),
    "status": ("pulsar-quota status", "pulsar-quota --api http://broker-2:8087 status --json"),
    "top": ("pulsar-quota top", "pulsar-quota top orders --once"),
}


def epilog(command: str) -> str:
    """Return the end of a command's help; each example is a paragraph, so that none is folded."""
    return "\n\n".join(["Examples:", *EXAMPLES[command]])

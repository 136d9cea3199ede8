"""The gate: a protocol-aware TCP proxy in front of one broker, where limits are enforced.

Everything in here but ``connection`` and ``proxy`` is pure: bytes in, bytes out, told the time.
"""

from coordinator.gate.counters import GateListener
from coordinator.gate.proxy import Gate

__all__ = ["Gate", "GateListener"]

"""Allocation laws: how the limit of a group is split among the brokers that take part.

A law is a pure function from a limit and each participant's claim to each participant's target. Every
sidecar computes it from its own view; with equal views the results are equal to the last unit, so no
leader is needed.

``LAWS`` are those that a group can choose: ``max-min`` (water_filling.py) and ``static`` as its simplest
relative, what PIP-82 describes (pip82.py), and what Pulsar products do today (products.py).
``COMPARISON_LAWS`` are those of other rate limiters (peers.py): the simulator and the benchmarks run
them beside ours, no group can choose them.

Invariants, for every law: each target is >= 0; the result does not depend on the order of the claims.
Not every law hands out exactly the limit, and those that hand out more do so by design:

===================  ===================================================================
adds up to           laws
===================  ===================================================================
the limit, exactly   max-min, static, proportional, rateguard, fps
at most the limit    doorman-proportional, doorman-fair
at most 2 limits     steal (3/2 limits with equal weights)
at most N limits     equal-residual, tdmq, grd; pulsar, with its float noise on top
===================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.core.allocation.laws.claims import Allocation, Claim, Law, apportion
from coordinator.core.allocation.laws.joint import JointClaim, joint_max_min
from coordinator.core.allocation.laws.peers import (
    doorman_fair,
    doorman_proportional,
    fps,
    grd,
    rateguard,
)
from coordinator.core.allocation.laws.pip82 import equal_residual, proportional, steal
from coordinator.core.allocation.laws.products import pulsar, tdmq
from coordinator.core.allocation.laws.water_filling import exact_parts, max_min, static

__all__ = [
    "ALL_LAWS", "COMPARISON_LAWS", "JOINT_LAW", "LAWS", "LAWS_OF_USE", "Allocation", "Claim",
    "JointClaim", "Law", "apportion", "exact_parts", "joint_max_min", "max_min",
]  # fmt: skip

LAWS: Mapping[str, Law] = {
    "max-min": max_min,
    "equal-residual": equal_residual,
    "proportional": proportional,
    "steal": steal,
    "pulsar": pulsar,
    "tdmq": tdmq,
    "static": static,
}
"""Every law, by the name that a group's ``law`` setting uses."""

JOINT_LAW: Final = "max-min"
"""The law that splits messages and bytes together (joint.py)."""

COMPARISON_LAWS: Mapping[str, Law] = {
    "grd": grd,
    "rateguard": rateguard,
    "doorman-proportional": doorman_proportional,
    "doorman-fair": doorman_fair,
    "fps": fps,
}
"""The laws of other rate limiters, by name: measured beside ours; no group can choose them."""

LAWS_OF_USE: Final = frozenset({"equal-residual", "proportional", "steal", "pulsar", "tdmq", "fps"})
"""The laws that go by what each broker used, so that every report may change their split."""

ALL_LAWS: Mapping[str, Law] = {**LAWS, **COMPARISON_LAWS}
"""All laws that the core can compute; the store and the admin API accept ``LAWS`` only."""

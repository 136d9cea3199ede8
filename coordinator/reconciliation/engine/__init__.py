"""Compute escaped traffic from the counters of broker and gate; pure."""

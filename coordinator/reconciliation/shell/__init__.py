"""Read the counters of broker and gate, and charge the difference."""

"""Read the counters of broker and gate at the right distance in time."""

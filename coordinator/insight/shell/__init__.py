"""Sample the core, keep the samples, and the conditions that hold."""

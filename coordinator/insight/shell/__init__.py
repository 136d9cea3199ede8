"""Sample the core, keep the samples, and report alarms."""

"""Values and sentences that are derived from the core's state: pure."""

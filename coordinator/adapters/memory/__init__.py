"""Every port in memory: deterministic, for tests and for a single process."""

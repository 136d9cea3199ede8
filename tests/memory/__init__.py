"""Every port in memory, deterministic: for tests and for what is measured without a server."""

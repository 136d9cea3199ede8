"""Change the store for a caller, and answer once this sidecar has seen the change."""

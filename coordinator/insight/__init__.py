"""Read the state of the core and show it; this package decides nothing."""

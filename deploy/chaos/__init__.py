"""Mishaps on a real cluster under load, and a checker that knows nothing of how the sidecars work."""

"""Backlogs of topics and their quotas (PIP-323): exceeded quotas, since when, and the actions on them."""

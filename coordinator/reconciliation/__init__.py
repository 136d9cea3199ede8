"""Compute escaped traffic: what the broker counted less what its gate passed."""

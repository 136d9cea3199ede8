"""Reconciliation of the broker's counters with the gate's: the difference went round the gate."""

"""Admission at the gate: buckets, windows, counters and fair queues of resource groups."""

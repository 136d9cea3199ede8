"""Pulsar's own decoder against the gate's: what passes the gate, both read alike."""

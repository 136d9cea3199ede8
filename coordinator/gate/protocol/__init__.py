"""Pulsar's binary protocol as the gate reads and writes it: frames, commands, streams."""

"""Codecs of the wire and the stores: Protocol Buffers and JSON.

Pulsar's -1 for "not limited" lives here and in the REST schemas; everywhere else it is None.
"""

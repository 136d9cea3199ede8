"""What goes over the wire and into the stores: Protocol Buffers and JSON codecs.

Pulsar's -1 for "not limited" lives here and in the REST schemas; everywhere else it is None.
"""

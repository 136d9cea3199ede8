"""Pulsar's client library, in a process of its own.

The library is C++ that reads what anyone may publish on a topic. Release 3.13.0 reads beyond the end of
LZ4 whose size is a lie, and allocates any size that a message states, up to 4 GiB. In the sidecar's
process one such message would end the coordinator, and its gate with it. Here it ends a process that has
nothing to lose: the topics are gone for the second that the next one takes to start, and the reports of
that second are replaced by later ones.

``handle`` is the coordinator's side. It starts the process, tells it what to publish, hears what arrived,
and starts it again when it has ended. ``process`` is the other side: the threads between the socket and
the library, and little else that takes memory. ``topic`` keeps one topic connected, ``outbox`` bounds
what arrives, and ``frames`` is how both sides write to each other.
"""

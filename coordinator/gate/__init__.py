"""The gate: a protocol-aware TCP proxy in front of one broker, where limits are enforced.

``protocol``, ``limits`` and ``engine`` are pure: bytes in, bytes out, told the time. ``server`` has the
sockets around them, and ``process`` runs that in a process of its own.
"""

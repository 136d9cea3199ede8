"""Clusters of real cores in simulated time: hours of a law and a policy take seconds.

A scenario builds a world (world.py) of hosts (host.py), each a real ``CoordinatorState`` with real token
buckets, and disturbs its network (network.py), its ZooKeeper (zookeeper.py) and its traffic (traffic.py).
The outcome is measured (recording.py, metrics.py) against an ideal central bucket that sees the same
arrivals, and every promise is checked while the scenario runs (invariants.py).

One ``random.Random(seed)`` is the only source of chance and the scheduler the only clock, so a seed
replays a run exactly.
"""

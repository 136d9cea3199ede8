"""Many real cores in a world made up: what the laws and policies do, seen in seconds instead of hours.

A scenario builds a world (world.py) of hosts (host.py), each a real ``CoordinatorState`` with real token
buckets, and lets things happen to its network (network.py), its ZooKeeper (zookeeper.py) and its traffic
(traffic.py). What came of it is measured (recording.py, metrics.py) against an ideal central bucket that
sees the same arrivals, and every promise is checked while it runs (invariants.py).

One ``random.Random(seed)`` is the only source of chance and the scheduler the only clock, so a seed
replays a run exactly.
"""

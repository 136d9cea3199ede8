"""Mishaps on a real cluster under load, and a checker that knows nothing of how the sidecars work.

Who knows what:

- `links`: user-space proxies between two parts of the cluster, to be cut, slowed and reset.
- `ways`: those of every sidecar to ZooKeeper and to the bus.
- `clients`: publishers and consumers that write down every message; programs of their own.
- `stage`: the cluster with sidecars, links and load.
- `actions`, `mishaps`, `schedule`: how it is done, what can happen, and what will, by the seed.
- `watching`: what the sidecars say of themselves and take of the machine.
- `run`: one run, from the first message to its history.
- `choices`, `ground`, `series`, `results`: which runs, on which cluster, one after the other, and what
  became of each.
- `checker`: what the history must not show.
"""

#: What a cluster must advertise for the links to the bus, one for the sidecar of each broker.
LISTENERS = ("bus-1", "bus-2", "bus-3")

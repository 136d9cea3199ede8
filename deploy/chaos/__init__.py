"""Mishaps on a real cluster under load, and a checker that does not know how the sidecars work.

Each module has one task:

- `links`: user-space proxies between two parts of the cluster, to be cut, slowed and reset.
- `network_paths`: the links of every sidecar to ZooKeeper and to the bus.
- `clients`: publishers and consumers that write down every message; programs of their own.
- `testbed`: the cluster with sidecars, links and load.
- `actions`, `mishaps`, `schedule`: the means, the kinds, and the mishaps of a seed in order.
- `watching`: the sidecars' answers and their use of the machine, sampled.
- `run`: one run, from the first message to its history.
- `choices`, `environment`, `series`, `results`: the runs, their cluster, their order, and their results.
- `checker`: the rules that a history must not break.
"""

#: What a cluster must advertise for the links to the bus, one for the sidecar of each broker.
LISTENERS = ("bus-1", "bus-2", "bus-3")

"""Mishaps on a real cluster under load, and a checker that does not know how the sidecars work.

Each module has one task:

- `links`: user-space proxies between two parts of the cluster, to be cut, slowed and reset.
<<<<<<< HEAD
- `ways`: those of every sidecar to ZooKeeper and to the bus.
- `clients`: publishers and consumers that write down every message; programs of their own.
- `stage`: the cluster with sidecars, links and load.
- `actions`, `mishaps`, `schedule`: how it is done, what can happen, and what will, by the seed.
- `watching`: what the sidecars say of themselves and take of the machine.
- `run`: one run, from the first message to its history.
- `choices`, `ground`, `series`, `results`: which runs, on which cluster, one after the other, and what
  became of each.
- `checker`: what the history must not show.
=======
- `network_paths`: the links of every sidecar to ZooKeeper and to the bus.
- `clients`: publishers and consumers that write down every message; programs of their own.
- `testbed`: the cluster with sidecars, links and load.
- `actions`, `mishaps`, `schedule`: the means, the kinds, and the mishaps of a seed in order.
- `watching`: the sidecars' answers and their use of the machine, sampled.
- `run`: one run, from the first message to its history.
- `choices`, `environment`, `series`, `results`: the runs, their cluster, their order, and their results.
- `checker`: the rules that a history must not break.
>>>>>>> 5ecefaf (Describe the modules of the chaos runs by their tasks)
"""

#: What a cluster must advertise for the links to the bus, one for the sidecar of each broker.
LISTENERS = ("bus-1", "bus-2", "bus-3")

"""A real Pulsar cluster on one machine: ZooKeeper, a bookie and N brokers, each its own process.

The package needs the standard library only, a Java Runtime of 17 or later and Maven, because the
demo and the tests use it before anything else is set up. ``python -m deploy.local --help`` shows
the commands; `deploy.local.cluster.Cluster` is the same thing for Python code.

Who knows what:

- `requirements`: which programs must be on the machine, and how to get them.
- `jars`: where the class path comes from.
- `ports`: numbers that no other program uses.
- `configuration`: what is written into the configuration files.
- `commands`: the command line of every process.
- `archive`: makes brokers start in two thirds of the time.
- `processes`: starting, signalling and outwaiting them; no knowledge of Pulsar.
- `state`: cluster.json, the only thing that later commands know about a cluster.
- `layout`: which server gets which ports, files and command.
- `readiness`: when a server does its work.
- `cluster`: the order in which all of this happens.
- `rest`, `topics`: the broker's admin REST, as far as a load test needs it.
"""

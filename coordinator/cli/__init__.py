"""The ``pulsar-quota`` command: a table for people, ``--json`` for machines.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 ended by Ctrl-C. What asks about the cluster or changes it
talks HTTP to the admin API of any sidecar and to nothing else, but for ``doctor --config``,
``doctor --native``, ``import`` and ``native off``.

- `__main__`: puts the commands together; the only module that reads the environment.
- `client`: the admin API as a Python class.
- `session`: the global options of a command, and how it prints rows; `failures`: how it fails.
- `output`: the layout of lines and numbers; `consoles`: what rich draws, tables above all.
- `groups`, `status`, `explain`, `top`, `doctor`, `sidecar`: the commands.
- `doctor_api`, `doctor_host`: the doctor's checks; `probes`: its attempts to connect;
  `findings`: its results.
- `frames`: the content of `top` at one moment.
- `spark`: the commands that run a Spark job.
"""

"""The ``pulsar-quota`` command: a table for people, ``--json`` for machines.

Exit codes: 0 done, 1 failed, 2 wrong use. Everything but ``sidecar`` and ``doctor --config`` talks HTTP
to the admin API of any sidecar and to nothing else.

- `__main__`: puts the commands together; the only module that reads the environment.
- `client`, `answers`: the admin API as Python sees it.
- `session`: what every command is given; `failures`: how a command ends other than well.
- `output`: how numbers and tables look.
- `groups`, `status`, `explain`, `top`, `doctor`, `sidecar`: the commands.
- `doctor_api`, `doctor_host`: what the doctor looks at; `probes`: how it tries things out;
  `findings`: what it says.
- `frames`: what `top` shows at one moment.
"""

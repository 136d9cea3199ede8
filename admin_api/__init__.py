"""The admin API: Pulsar's resource-group REST and what Pulsar lacks.

Who knows what:

- `app`: puts the parts together; the only thing that others import besides `backend`.
- `backend`: what the API needs of the sidecar around it.
- `routes`: one module per subject; the only code that knows paths and status codes.
- `schemas`: the JSON, and with it Pulsar's -1 for "not limited".
- `names`, `body`, `conditions`: what is checked before a request is believed.
- `access`, `tokens`, `request_rate`: who is calling, what the role may do, and how often.
- `definitions`, `rollback`: changing a group while others change it too.
- `metrics`: what Prometheus is told.
- `errors`: one shape for everything that goes wrong.
"""

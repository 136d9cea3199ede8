"""The admin API: Pulsar's resource-group REST, and endpoints that Pulsar lacks.

- `app`: puts the parts together; the only module that others import besides `backend`.
- `backend`: the ports of the sidecar that the API needs.
- `routes`: one module per subject; the only code that knows paths and status codes.
- `schemas`: the JSON, and with it Pulsar's -1 for "not limited".
- `names`, `body`, `conditions`: checks of a request before it is believed.
- `access`, `tokens`, `request_rate`: the caller's role, its rights, and its rate of requests.
- `definitions`, `rollback`: changing a group while others change it too.
- `metrics`: the metrics for Prometheus.
- `errors`: one shape for all errors.
"""

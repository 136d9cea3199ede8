"""The admin API: Pulsar's resource-group REST, and endpoints that Pulsar lacks.

- `app`: puts the parts together; the only module that others import besides `backend`.
- `backend`: the ports of the sidecar that the API needs.
- `routes`: one module per subject; the only code that knows paths and status codes.
- `requests`: the checks of a request before it is believed: its host, caller, rate, names and body.
- `changes`: changing a group while others change it too, and seeing the own change.
- `relay`: what goes on to the broker.
- `schemas`: the JSON, and with it Pulsar's -1 for "not limited".
- `metrics`: the metrics for Prometheus.
- `dashboard`: the pages, as files.
- `coordinator_loop`: calls from the API's loop to the coordinator's.
- `errors`: one shape for all errors.
"""

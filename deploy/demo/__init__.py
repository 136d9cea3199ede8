"""The demo: a real cluster under real load, a scripted story, and figures that the brokers counted.

Who knows what:

- `recording`: the values that a run leaves behind.
- `curves`, `figures`, `targets`: what they mean; pure, without IO.
- `counters`: sampling the brokers' counters.
- `load`: one real client that publishes at a steady rate; a program of its own.
- `programs`, `waiting`: the demo's own processes, and waiting with an eye on them.
- `system`, `sidecars`, `peer`: what the story is told about, ours and Pulsar's own.
- `warmup`, `story`: load before the acts, and the acts.
- `frame`, `screen`: what is shown meanwhile.
- `result`, `summary`: what is shown and written at the end.
- `play`: one run, from start to stop.
"""

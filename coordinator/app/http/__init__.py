"""The admin API on its port: TLS, connections within bounds, and a thread of its own."""

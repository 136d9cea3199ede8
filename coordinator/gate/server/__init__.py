"""The gate's sockets: it listens, dials the broker, speaks TLS, and keeps the one timer."""

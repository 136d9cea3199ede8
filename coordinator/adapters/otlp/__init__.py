"""Metrics by push, to an OpenTelemetry collector."""

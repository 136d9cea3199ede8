"""The composition of a sidecar: its parts are made, joined and run here."""

"""The own broker's admin REST and metrics, over HTTP."""

"""The basis of every process of ours: its log, its tasks, its TLS, its release."""

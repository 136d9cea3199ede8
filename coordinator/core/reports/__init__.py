"""Reports between sidecars: when to send one, and which received reports to believe."""

"""Spark jobs on what the sidecars recorded: pure DataFrame transforms and their entry points."""

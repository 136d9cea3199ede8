"""The commands that run a Spark job on recordings: the only modules of the command that know Spark."""

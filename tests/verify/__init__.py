"""The measurement: rows of a figure, a bound and a verdict, with nothing else on the machine."""

"""The project's figures, measured: ``make bench``, or ``python -m benchmarks --only law``.

Every module is one area and offers ``MEASUREMENTS``: the beginning of the names of its figures, and the
function that measures them. A speed is comparable only within one run on one machine, so peers are
measured in the same process, by turns with ours.
"""

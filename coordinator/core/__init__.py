"""The pure core: events in, instructions out, told the time.

No module in here does IO, reads a clock, rolls dice or writes a log; import-linter holds it to that.
"""

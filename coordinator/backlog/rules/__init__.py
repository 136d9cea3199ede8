"""Backlog and backlog quota of topics: the unacknowledged data, its age, and its allowed amount.

Pure, like all of the core: the broker's answers come in as values, the next questions go out.
"""

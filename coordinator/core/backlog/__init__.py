"""Backlog and backlog quota of topics: what is unacknowledged, since when, and how much of it is allowed.

Pure, like all of the core: what a broker says comes in as values, what to ask it next goes out.
"""

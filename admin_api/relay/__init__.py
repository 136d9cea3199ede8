"""Requests that go on to the broker: which do, and what its lookups answer."""

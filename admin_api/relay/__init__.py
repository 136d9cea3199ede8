"""Requests that go on to the broker: which paths may, and what its lookups answer."""

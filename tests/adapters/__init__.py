"""Tests of the adapters' own parts, beyond the promises of their ports."""

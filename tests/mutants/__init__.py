"""Mutation testing: small mistakes put into the core and the gate's engine, which tests must notice."""

"""Membership and the durable stores, on ZooKeeper by kazoo."""

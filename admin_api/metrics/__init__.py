"""The metrics for Prometheus: a module for each subject, gathered by scrape.py."""

"""The words of docstrings, comments, messages and pages."""

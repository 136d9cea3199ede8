"""Carries native enforcement out: the topic, the broker's admin REST and its counters."""

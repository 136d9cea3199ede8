"""From a rate to single admissions: the token bucket of PIP-322, and windows of a second."""

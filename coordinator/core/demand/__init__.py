"""The traffic that this broker admits, and the demand that it would have without its limits."""

"""The split of a group's limit: from the claims of the brokers to their targets."""

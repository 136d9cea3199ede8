"""The policy strict: books under which limits never add up to more than the group's limit."""

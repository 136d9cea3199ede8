"""The most that the local limits of a group can add up to at this moment."""

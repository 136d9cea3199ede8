"""Ask the broker about backlogs, and carry out the decisions of the rules."""

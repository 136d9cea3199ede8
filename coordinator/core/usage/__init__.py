"""ResourceGroup -> Broker -> Usage: the newest report of every broker, and whether all views agree."""

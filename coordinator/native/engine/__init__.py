"""Native enforcement as one state, told the time: it decides the entries to write for each broker."""

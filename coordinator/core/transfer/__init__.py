"""The transfer of a target into the limit in force: at once, or once the others have answered."""

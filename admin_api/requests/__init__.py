"""The checks of a request: its host, caller, rate, names, body and conditions."""

"""The paths of the admin API, a module per subject."""

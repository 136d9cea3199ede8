"""The recording of a sidecar's events, as Parquet files."""

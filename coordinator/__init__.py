"""pulsar-quota: a resource-group quota coordinator for Apache Pulsar (PIP-82)."""

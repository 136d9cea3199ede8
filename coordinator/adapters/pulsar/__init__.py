"""Topics of the cluster, over pulsar-client: the report bus, and Pulsar's own usage topic."""

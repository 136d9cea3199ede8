"""Everything that puts pulsar-quota, or a Pulsar to try it on, onto machines."""

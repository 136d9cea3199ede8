"""The ports' implementations: the only code that knows kazoo, pulsar-client or httpx."""

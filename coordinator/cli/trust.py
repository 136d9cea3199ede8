"""TLS of the command line to the admin API: trusted authorities, and its own certificate."""

from __future__ import annotations

import ssl

from coordinator.cli.failures import WrongUse
from coordinator.runtime.client_tls import ClientTls


def trust(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the TLS context; None is the system's authorities, and no certificate of our own.

    Args:
        ca: file of authorities (PEM), in place of the system's.
        certificate: file of our own certificate chain (PEM).
        key: file of its private key (PEM).

    Raises:
        WrongUse: a file cannot be used, or one of certificate and key is missing.
    """
    if not (ca or certificate or key):
        return None
    if bool(certificate) != bool(key):
        raise WrongUse("--tls-certificate, --tls-key: name both, or neither to show no certificate")
    given = {"--tls-ca": ca, "--tls-certificate": certificate, "--tls-key": key}
    try:
        return ClientTls.of(ca, certificate, key).context()
    except OSError as error:  # SSLError is one
        named = ", ".join(f"{option} {file}" for option, file in given.items() if file)
        raise WrongUse(f"{named}: cannot be used: {error}") from error

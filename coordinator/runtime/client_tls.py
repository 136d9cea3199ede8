"""TLS to a server: the authorities that are trusted, and the certificate that is shown.

Used by the gate to its broker, by the session to ZooKeeper, by the command line to the admin API and by
every https client; the gate as a server is in ``gate/server/tls.py``. HTTP clients need it, too: their
library trusts a list of its own, in which no organisation's authority is.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The files for TLS to a server, all PEM; the server's name is always checked.

    Args:
        ca: authorities of the server's certificate; None are the system's.
        certificate: chain that is shown to the server; None shows none.
        key: its private key.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def of(cls, ca: str | None, certificate: str | None, key: str | None) -> ClientTls:
        """Make it from configured names: empty is none."""
        return cls(*(Path(name) if name else None for name in (ca, certificate, key)))

    def __str__(self) -> str:
        return ", ".join(map(str, self.files))

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files that are set."""
        return tuple(file for file in (self.ca, self.certificate, self.key) if file is not None)

    def context(self) -> ssl.SSLContext:
        """Return a TLS context from the present files.

        Raises:
            OSError: one cannot be read or has a wrong content (ssl.SSLError).
        """
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


def machine_trust(url: str) -> ssl.SSLContext:
    """Return the machine's trust without a certificate to show, for a URL without further configuration.

    For https it is read once for all callers, as that takes 24 ms. For http it is not read: such a
    connection uses no certificates.
    """
    if url.lower().startswith("https:"):
        return _machine_trust()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@cache
def _machine_trust() -> ssl.SSLContext:
    return ClientTls().context()

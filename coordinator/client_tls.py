"""TLS to a server: whose certificates it may have, and what it is shown of ours.

The gate to its broker, the session to ZooKeeper, the command line to the admin API and whatever asks over
https speak it; the gate as a server is in ``gate/tls.py``. HTTP clients are told, too: their library
trusts a list of its own, in which no organisation's authority is.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What TLS to a server stands on, all PEM; the server's name is always checked.

    Args:
        ca: authorities of the server's certificate; None are the system's.
        certificate: chain that is shown the server; None shows none.
        key: its private key.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def of(cls, ca: str | None, certificate: str | None, key: str | None) -> ClientTls:
        """From names as they are configured: empty is none."""
        return cls(*(Path(name) if name else None for name in (ca, certificate, key)))

    def __str__(self) -> str:
        return ", ".join(map(str, self.files))

    @property
    def files(self) -> tuple[Path, ...]:
        """Those that there are."""
        return tuple(file for file in (self.ca, self.certificate, self.key) if file is not None)

    def context(self) -> ssl.SSLContext:
        """What a connection needs of it, from the files as they are now.

        Raises:
            OSError: one cannot be read, or is not what it should be (ssl.SSLError).
        """
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


def machine_trust(url: str) -> ssl.SSLContext:
    """What the machine trusts, with nothing to show: for who asks this URL, configured no further.

    It is read once for all who ask over https, for it takes 24 ms. Over http it is not read: whoever
    asks there trusts nobody, and needs nobody's certificate.
    """
    if url.lower().startswith("https:"):
        return _machine_trust()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@cache
def _machine_trust() -> ssl.SSLContext:
    return ClientTls().context()

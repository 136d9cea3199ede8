"""The gate's certificate: clients speak TLS up to here, since limits need frames that can be read.

Credentials inside the protocol (tokens, OAuth2, basic) pass to the broker as they are. A client's
certificate can be demanded; whether the broker learns whose it is, is up to ``introduction``.

Certificates change while the gate runs: the files are looked at now and then, and what is new there is
tried out before it replaces what is in use. A pair that does not work changes nothing. Open connections
keep what they began with. A client authority that is taken away stays trusted until a restart.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLL_S = 5.0
"""How often the files are looked at."""

HANDSHAKE_TIMEOUT_S = 10.0
"""A client that takes longer to agree on a key is turned away."""


class TlsError(Exception):
    """The certificate cannot be used; the message names the files."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the certificate is, all PEM.

    Args:
        certificate: the chain, the gate's own certificate first.
        key: its private key.
        client_ca: authorities one of which must have signed each client's certificate; None demands
            none.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """What changes when a file does."""
        paths = (self.certificate, self.key, self.client_ca)
        return stamp_of(*paths)


@dataclass(frozen=True, slots=True)
class TlsListener:
    """Where clients connect with TLS.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one, see ``Gate.tls_port``.
        files: the certificate.
    """

    host: str
    port: int
    files: TlsFiles


class Certificate:
    """A server's TLS context that follows its files.

    Raises:
        TlsError: the files cannot be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamp = files.stamp()
        self.context = _context(files)

    def refresh(self) -> bool:
        """Take over what changed in the files; tell whether anything did.

        Raises:
            TlsError: what is there now cannot be used; said once per change.
        """
        stamp = self._files.stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        _context(self._files)  # half of a pair must not get into the context that is in use
        _load(self.context, self._files)
        return True


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """The common name in a peer's certificate, as ``ssl`` tells it; empty without one.

    Of several, the last: the first one of the name as RFC 2253 writes it, which is what brokers take.
    """
    subject = certificate.get("subject", ()) if certificate else ()
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[-1] if names else ""


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.certificate, files.key)
    except OSError as error:  # SSLError is one
        raise TlsError(f"{files.certificate}, {files.key}: {error}") from error
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except OSError as error:
            raise TlsError(f"{files.client_ca}: {error}") from error


def stamp_of(*paths: Path | None) -> tuple[tuple[int, int], ...]:
    """What changes when one of these files does; one that is missing for a moment has changed."""
    return tuple(_stamp(path) for path in paths if path is not None)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_ino)

"""The gate's certificate: clients speak TLS up to here, since limits need frames that can be read.

Credentials inside the protocol (tokens, OAuth2, basic) pass to the broker unchanged. The gate can demand
a client's certificate; ``connect_policy`` decides whether the broker learns its name.

Certificates change while the gate runs: the gate looks at the files now and then, and tries new ones
before they replace those in use. A pair that does not work changes nothing. Open connections keep their
certificate. A client authority that is removed stays trusted until a restart.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLL_S = 5.0
"""The time between two looks at the files."""

HANDSHAKE_TIMEOUT_S = 10.0
"""The time for a TLS handshake; a client that takes longer is refused."""


class TlsError(Exception):
    """The certificate cannot be used; the message names the files."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of the certificate, all PEM.

    Args:
        certificate: the chain, the gate's own certificate first.
        key: its private key.
        client_ca: authorities one of which must have signed each client's certificate; with None the
            gate demands no certificate.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Return a stamp that changes when a file does."""
        paths = (self.certificate, self.key, self.client_ca)
        return stamp_of(*paths)


@dataclass(frozen=True, slots=True)
class TlsListener:
    """The gate's TLS address and its certificate.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one, see ``Gate.tls_port``.
        files: the files of the certificate.
    """

    host: str
    port: int
    files: TlsFiles


class ServerCertificate:
    """A server's TLS context that follows its files.

    Raises:
        TlsError: the files cannot be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamp = files.stamp()
        self.context = _context(files)

    def refresh(self) -> bool:
        """Load the files if they changed; tell whether they did.

        Raises:
            TlsError: the new files cannot be used; raised once per change.
        """
        stamp = self._files.stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        _context(self._files)  # half of a pair must not get into the context in use
        _load(self.context, self._files)
        return True


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """Return the common name in a peer's certificate, as ``ssl`` gives it; empty without one.

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
    """Return a stamp that changes when a file does; a file that is missing counts as changed."""
    return tuple(_stamp(path) for path in paths if path is not None)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_ino)

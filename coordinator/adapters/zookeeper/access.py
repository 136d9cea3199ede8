"""A sidecar's credentials for ZooKeeper, and its trust in the servers.

kazoo keeps trying whatever a server answers, as it must while servers come and go. This module describes
the faults that another attempt does not mend, with the configuration's key to change: a server that is
not trusted, one that does not trust us, a wrong password.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, NoAuthError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import CREATOR_ALL_ACL

from coordinator.runtime.client_tls import ClientTls


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Makes kazoo's connections.

    kazoo's own connections trust the system's authorities whatever else is named, and leave the socket
    open when the handshake fails.
    """

    def __init__(self, tls: ClientTls) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(
        self, address: tuple[str, int], *, hostname: str, timeout: float, **_: object
    ) -> ssl.SSLSocket:
        """Connect, and verify that the server is the intended one."""
        context = self._tls.context()
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """The credentials and TLS settings of a sidecar.

    Args:
        credentials: ``user:password``. Nodes created with them are for clients with the same ones only;
            empty sends none, and every client may change the nodes.
        sasl: whether they are sent by SASL (DIGEST-MD5), or by ZooKeeper's digest scheme.
        tls: None is plain.
    """

    credentials: str = ""
    sasl: bool = False
    tls: ClientTls | None = None

    def options(self) -> dict[str, Any]:
        """Return kazoo's options; it sends credentials at every connection, before all else."""
        return self._authentication() | self._encryption()

    def refusal(self, error: BaseException) -> str | None:
        """Return the reason that keeps us unconnected until the configuration is changed.

        None where another attempt may help.
        """
        found = refusal(error)
        shows_none = self.tls is not None and self.tls.certificate is None
        if found is None and shows_none and isinstance(error, ConnectionDropped):
            return (
                "a server hangs up before it answers; if it demands a certificate "
                "(ssl.clientAuth), correct zookeeper_tls_certificate_file"
            )
        return found

    def _authentication(self) -> dict[str, Any]:
        if not self.credentials:
            return {}
        user, _, password = self.credentials.partition(":")
        shown = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
        return {
            "default_acl": CREATOR_ALL_ACL,
            "sasl_options": shown if self.sasl else None,
            "auth_data": None if self.sasl else [("digest", self.credentials)],
        }

    def _encryption(self) -> dict[str, Any]:
        if self.tls is None:
            return {}
        return {"handler": _TlsHandler(self.tls), "use_ssl": True}


def on_attempts(
    client: KazooClient, access: ZooKeeperAccess, listener: Callable[[str | None], None]
) -> None:
    """Call the listener after each attempt to connect, on kazoo's thread: the refusal, or None."""
    connection = client._connection  # noqa: SLF001 - kazoo only logs it
    connect = connection._connect  # noqa: SLF001

    def attempt(*address: Any) -> Any:
        try:
            timeouts = connect(*address)
        except Exception as error:
            listener(access.refusal(error))
            raise
        listener(None)
        return timeouts

    connection._connect = attempt  # noqa: SLF001


def refusal(error: BaseException) -> str | None:
    """Return the fault that an operator must mend, with the key of the configuration."""
    if isinstance(error, NoAuthError):
        return (
            "NoAuthError: the nodes are for other credentials than those shown; correct "
            "zookeeper_credentials_file, the same for all sidecars, or zookeeper_sasl"
        )
    if isinstance(error, AuthFailedError):
        return (
            "AuthFailedError: the user or password is refused (SASL); correct "
            "zookeeper_credentials_file, or the server's JAAS login"
        )
    cause = error if isinstance(error, ssl.SSLError) else error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not trusted: {cause.verify_message}; correct "
            "zookeeper_tls_ca_file or zookeeper_servers, whose names the certificates must have"
        )
    if isinstance(cause, ssl.SSLError):
        return (
            f"TLS fails: {cause.reason or cause}; correct zookeeper_tls_certificate_file, which the "
            "server may demand, or zookeeper_servers, which must be secureClientPort with zookeeper_tls"
        )
    return None

"""The connection to the broker: plain or with TLS, and a PROXY header that names the client.

Behind a proxy a broker sees the proxy's host for every client, in its statistics and wherever it counts
by host. HAProxy's PROXY protocol puts one header in front of the stream that names the client (versions 1
and 2 of its specification); a broker reads it with ``haProxyProtocolEnabled=true``, after TLS.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from coordinator.core.addresses import host_and_port
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.server.tls import TlsError, stamp_of
from coordinator.runtime.client_tls import ClientTls

CONNECT_TIMEOUT_S: Final = 5.0
"""The time for dialling the broker, which is near: one that takes longer is not there."""

Address = tuple[str, int]
"""Host and port."""

_WARN_INTERVAL_NS: Final = 60 * NANOS_PER_SECOND
_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_VERSION_2_PROXY: Final = 0x21
_VERSION_2_LOCAL: Final = 0x20
_TCP_OVER_IPV4: Final = 0x11
_TCP_OVER_IPV6: Final = 0x21

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UpstreamTls:
    """The settings of TLS to the broker.

    Args:
        hostname: the name that its certificate must have.
        client: the authorities that the gate trusts, and its own certificate; see ``connect_policy``.
    """

    hostname: str
    client: ClientTls

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Return a stamp that changes when a file does."""
        return stamp_of(*self.client.files)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for asyncio.

        Raises:
            TlsError: a file cannot be used.
        """
        try:
            return self.client.context()
        except OSError as error:  # SSLError is one
            raise TlsError(f"{self.client}: {error}") from error


class Upstream:
    """Dials the broker.

    Args:
        host: the broker's address.
        port: its port.
        now_ns: returns the time.
        tls: settings of TLS; None is plain.
        proxy_protocol: the version of the PROXY header, 1 or 2; 0 sends none.

    Raises:
        TlsError: a file of ``tls`` cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        now_ns: Callable[[], int],
        *,
        tls: UpstreamTls | None = None,
        proxy_protocol: int = 0,
    ) -> None:
        self._host = host
        self._port = port
        self._now_ns = now_ns
        self._tls = tls
        self._stamp = () if tls is None else tls.stamp()
        self._context = None if tls is None else tls.context()
        self._proxy_protocol = proxy_protocol
        self._warned_ns: int | None = None
        #: How often the broker could not be reached.
        self.failures = 0

    @property
    def address(self) -> str:
        """host:port of the broker."""
        return host_and_port(self._host, self._port)

    async def dial(self, new_protocol: Callable[[], asyncio.Protocol]) -> bool:
        """Connect; return whether the broker was reached. Never raises OSError."""
        self._renew()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(
                    new_protocol,
                    self._host,
                    self._port,
                    ssl=self._context,
                    server_hostname=None if self._tls is None else self._tls.hostname,
                )
        except OSError as error:  # TimeoutError and SSLError are some
            self._failed(error)
            return False
        return True

    def header(self, client: Address | None, gate: Address | None) -> bytes:
        """Return the PROXY header; it leaves out unknown addresses."""
        match self._proxy_protocol:
            case 0:
                return b""
            case 1:
                return _header_1(client, gate)
            case _:
                return _header_2(client, gate)

    def _renew(self) -> None:
        """Load the files if they changed; unusable files change nothing, and are logged once."""
        if self._tls is None or (stamp := self._tls.stamp()) == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context = self._tls.context()
        except TlsError as error:
            _log.error("new certificate cannot be used, the old one stays", reason=str(error))
        else:
            _log.info("certificate for the broker renewed")

    def _failed(self, error: OSError) -> None:
        self.failures += 1
        now_ns = self._now_ns()
        if self._warned_ns is None or now_ns - self._warned_ns >= _WARN_INTERVAL_NS:
            self._warned_ns = now_ns
            _log.warning(
                "broker cannot be reached, client turned away",
                host=self._host,
                port=self._port,
                reason=str(error) or type(error).__name__,
                failures=self.failures,
            )


def _header_1(client: Address | None, gate: Address | None) -> bytes:
    if client is None or gate is None:
        return b"PROXY UNKNOWN\r\n"
    version = ipaddress.ip_address(client[0]).version
    family = "TCP4" if version == 4 else "TCP6"
    hosts = " ".join(
        host.partition("%")[0] for host, _ in (client, gate)
    )  # no zone of an interface
    return f"PROXY {family} {hosts} {client[1]} {gate[1]}\r\n".encode()


def _header_2(client: Address | None, gate: Address | None) -> bytes:
    if client is None or gate is None:
        return _SIGNATURE + struct.pack(">BBH", _VERSION_2_LOCAL, 0, 0)
    hosts = [ipaddress.ip_address(host).packed for host, _ in (client, gate)]
    family = _TCP_OVER_IPV4 if len(hosts[0]) == 4 else _TCP_OVER_IPV6
    addresses = b"".join(hosts) + struct.pack(">HH", client[1], gate[1])
    head = struct.pack(">BBH", _VERSION_2_PROXY, family, len(addresses))
    return _SIGNATURE + head + addresses

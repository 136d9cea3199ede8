"""The way to the broker: plain or with TLS, and who the client is, told by a PROXY header.

Behind a proxy a broker takes every client for the proxy's host, in its statistics and wherever it counts
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

from coordinator.client_tls import ClientTls
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.tls import TlsError, stamp_of

CONNECT_TIMEOUT_S: Final = 5.0
"""The broker is next door: if it takes longer than this, it is not there."""

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
    """How to speak TLS to the broker.

    Args:
        hostname: the name that must stand in its certificate.
        client: whom the gate trusts, and what it shows of its own; see ``introduction``.
    """

    hostname: str
    client: ClientTls

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """What changes when a file does."""
        return stamp_of(*self.client.files)

    def context(self) -> ssl.SSLContext:
        """What asyncio needs of it.

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
        now_ns: tells the time.
        tls: None is plain.
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
        return f"{self._host}:{self._port}"

    async def dial(self, new_protocol: Callable[[], asyncio.Protocol]) -> bool:
        """Connect; tell whether the broker was reached. Never raises OSError."""
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
        """What comes before the client's own bytes; addresses that are not known are not named."""
        match self._proxy_protocol:
            case 0:
                return b""
            case 1:
                return _header_1(client, gate)
            case _:
                return _header_2(client, gate)

    def _renew(self) -> None:
        """Take over what changed in the files; what cannot be used changes nothing, and is said once."""
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

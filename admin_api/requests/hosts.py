"""The host names that this API answers to, and the pages that may call it.

This protects against DNS rebinding and forged requests. Without tokens, every client that reaches the API
may do everything, and the configuration makes sure that only this machine reaches it. But a browser on
this machine runs pages of strangers. Two checks keep those out.

*Host.* A page at ``http://evil.example`` can let its name point to 127.0.0.1 (DNS rebinding); to the
browser, the API is then part of that page's own site. But the request still names ``evil.example`` as its
host. So without tokens the host must be loopback by its very spelling (127.0.0.0/8, ::1, localhost, at
any port) or one that the configuration names; with tokens any host will do, since the page has no token.

*Origin.* A page elsewhere may send some requests without asking, and cannot read the answers: enough to
attach, to limit or to terminate. Browsers state the origin of such a request in ``Origin`` and
``Sec-Fetch-Site``, and no page can forge these. So with tokens or without, a change, and any request that
may reach the broker, is refused when either header names another origin. Programs send neither header,
and our own pages come from the host that they ask.

A host is compared in one spelling only. Other spellings of loopback that a resolver might accept
(``2130706433``, ``127.1``, ``0x7f000001``, ``localhost.``) are refused: no tool of Pulsar or ours sends
them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from admin_api.errors import ApiError, reason_response
from admin_api.requests.refusals import RefusalCounts

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing."""

_TO_THE_BROKER: Final = ("/admin/", "/lookup/")
_OWN_SITE: Final = frozenset({"same-origin", "none"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_AUTHORITY = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9_](?:[-A-Za-z0-9_.]{0,253}[A-Za-z0-9_])?))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<authority>.+)")


@dataclass(frozen=True, slots=True)
class Authority:
    """A host in its canonical spelling, and a port; None is the scheme's own, or any."""

    host: str
    port: int | None = None

    @classmethod
    def of(cls, text: str) -> Authority | None:
        """Read ``name``, ``name:port``, ``1.2.3.4:port`` or ``[::1]:port``; None is none of these."""
        match = _AUTHORITY.fullmatch(text)
        if match is None or ".." in text:
            return None
        port = None if match["port"] is None else int(match["port"])
        if port is not None and port > 65_535:
            return None
        if match["six"] is None:
            return cls(match["name"].lower(), port)
        try:
            return cls(str(ipaddress.IPv6Address(match["six"])), port)
        except ValueError:
            return None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine goes by that name."""
        if self.host in ("localhost", "::1"):
            return True
        try:
            return ipaddress.IPv4Address(self.host).is_loopback
        except ValueError:
            return False


class Hosts:
    """The hosts that the API answers to.

    Args:
        named: hosts beside loopback, as ``name`` (any port) or ``name:port``.
        everywhere: whether it answers to any other, too: callers are told apart by tokens.
    """

    def __init__(self, named: Collection[str] = (), *, everywhere: bool = False) -> None:
        self._named = [authority for name in named if (authority := Authority.of(name)) is not None]
        self._everywhere = everywhere

    def check_host(self, given: Sequence[str]) -> Authority | None:
        """Accept a request to this API; return the host that it names, None if there is none.

        Raises:
            ApiError: 400 for no host, several, or none that can be understood; 421 for another one.
        """
        if len(given) > 1:
            raise ApiError(400, "Host: stands more than once; send one")
        if self._everywhere:
            return Authority.of(given[0]) if given else None
        if not given:
            raise ApiError(400, f"Host: missing; {self._wanted()}")
        authority = Authority.of(given[0])
        if authority is None:
            raise ApiError(
                400, f"Host: {given[0]:.80} is no host in plain spelling; {self._wanted()}"
            )
        if not authority.is_loopback and not self._names(authority):
            raise ApiError(421, f"Host: {given[0]:.80} is not served; {self._wanted()}")
        return authority

    def check_site(
        self, host: Authority | None, origins: Sequence[str], sites: Sequence[str]
    ) -> None:
        """Accept a request that comes from no page, or from one of this very host.

        Raises:
            ApiError: 403 for a page of another host.
        """
        for origin in origins:
            if not self._is_own(host, origin):
                raise ApiError(
                    403,
                    f"Origin: pages of {origin:.80} may not do this; if that is where this API is "
                    "shown, name its host in admin_hosts",
                )
        for site in sites:
            if site.strip().lower() not in _OWN_SITE:
                raise ApiError(
                    403,
                    f"Sec-Fetch-Site: {site:.80}: pages of another site may not do this; open this "
                    "API's own address",
                )

    def _is_own(self, host: Authority | None, origin: str) -> bool:
        match = _ORIGIN.fullmatch(origin)
        found = None if match is None else Authority.of(match["authority"])
        if match is None or found is None:
            return False
        default = _DEFAULT_PORTS[match["scheme"]]
        # A proxy may speak TLS for this API: the scheme's port may be unsaid in either.
        page = Authority(found.host, found.port or default)
        known = self._named if host is None else [host, *self._named]
        return any(page == Authority(each.host, each.port or default) for each in known)

    def _names(self, authority: Authority) -> bool:
        return any(
            each.host == authority.host and each.port in (None, authority.port)
            for each in self._named
        )

    @staticmethod
    def _wanted() -> str:
        return (
            "without keys for tokens this API answers to loopback names (127.0.0.1, ::1, localhost) and "
            "those in admin_hosts"
        )


class OwnHosts:
    """Refuses requests to other hosts, and forbidden requests of other sites' pages."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts, refusals: RefusalCounts) -> None:
        self._app = app
        self._hosts = hosts
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on or refuse it."""
        if scope["type"] == "http":
            try:
                self._check(scope)
            except ApiError as error:
                reason = "origin" if error.status == 403 else "host"
                client = scope.get("client") or ("", 0)
                self._refusals.add(reason, client[0], error.reason)
                refusal = reason_response(error.status, error.reason)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        host = self._hosts.check_host(_values(scope, b"host"))
        if scope["method"] not in READING or scope["path"].startswith(_TO_THE_BROKER):
            origins = _values(scope, b"origin")
            self._hosts.check_site(host, origins, _values(scope, b"sec-fetch-site"))


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]

"""CONNECT: the broker that a client asks for, and the identity that it claims.

*Which broker.* Only a proxy heeds ``proxy_to_broker_url``. The gate leads to one broker; a client that
asks for another one is refused, or the gate would be a way into the network behind it.

*Whose identity.* Tokens, OAuth2 and basic credentials are part of CONNECT, and the broker judges them;
they pass unchanged. A certificate is part of the TLS session, which ends at the gate. Where the gate
shows the broker a certificate of its own, the broker sees that one for method ``tls``, so the gate
*vouches*: it names the client in ``original_principal``, as Pulsar's proxy does. The broker believes that
of roles in its ``proxyRoles``, and both roles, the gate's and the client's, must be allowed what the
client does. The principal is the common name of the client's certificate, as AuthenticationProviderTls
has it.

A client must not borrow the identity of a gate that vouches. Method ``tls`` without a certificate, or
with a principal that the client names itself, is refused.

Every CONNECT is written anew from the fields that were judged. Fields of later releases are left out,
feature flags included, so that neither side speaks in a way that the gate does not understand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.gate.protocol import schema
from coordinator.gate.protocol.frames import Fields, FrameFault, select_fields
from coordinator.gate.protocol.own_frames import (
    AUTHENTICATION_ERROR,
    SERVICE_NOT_READY,
    connect_frame,
)

_TLS: Final = "tls"
_ORIGINAL_PRINCIPAL: Final = 7
#: The fields of identity: the old method, data and method, and the same for a client behind a proxy.
_CREDENTIALS: Final = (2, 3, 5, 7, 8, 9)
_METHOD: Final = 5
_PROXY_TARGET: Final = 6
_ORIGINAL: Final = (7, 8, 9)
_FEATURE_FLAGS: Final = 10
_TEXT_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a connection.

    Args:
        host: its address; empty is unknown.
        principal: the common name of the certificate that it has shown; empty is none.
    """

    host: str = ""
    principal: str = ""


class NotWelcome(Exception):
    """The client is refused; the message gives the client the reason.

    Args:
        error: the ServerError that answers it.
        fault: the reason, for counting.
        detail: the value found, for the log.
    """

    def __init__(self, text: str, error: int, fault: FrameFault, detail: str) -> None:
        super().__init__(text)
        self.error = error
        self.fault = fault
        self.detail = detail


@dataclass(frozen=True, slots=True)
class ConnectPolicy:
    """The policy for CONNECT at this gate.

    Args:
        targets: host:port of our broker, by all names that it goes by.
        vouches: whether the gate shows the broker a certificate of its own.
    """

    targets: frozenset[str] = frozenset()
    vouches: bool = False

    def judge(self, command: Fields, client: Client) -> bytes:
        """Return the CONNECT to send in place of one with these fields.

        Raises:
            NotWelcome: the client is refused.
        """
        target = _text(command, _PROXY_TARGET)
        if target and target not in self.targets:
            text = f"not {target[:_TEXT_MAX]}: this gate leads to {', '.join(sorted(self.targets))} only"
            detail = repr(target[:_TEXT_MAX])
            raise NotWelcome(text, SERVICE_NOT_READY, FrameFault.FOREIGN_BROKER, detail)
        fields = {number: value for number, value in command.items() if number in schema.CONNECT}
        flags = fields.get(_FEATURE_FLAGS)
        if isinstance(flags, bytes):
            fields[_FEATURE_FLAGS] = select_fields(flags, 0, len(flags), schema.FEATURE_FLAGS)
        if self.vouches and _text(command, _METHOD) == _TLS:
            _check(command, client)
            for number in _CREDENTIALS:
                fields.pop(number, None)
            fields[_METHOD] = _TLS.encode()
            fields[_ORIGINAL_PRINCIPAL] = client.principal.encode()
        return connect_frame(fields)


def _check(command: Fields, client: Client) -> None:
    """Refuse a client that would use the gate's own certificate, or a name of its choice."""
    if not client.principal:
        text = "method tls needs TLS and a certificate with a common name, shown to this gate"
    elif any(number in command for number in _ORIGINAL):
        text = "original_principal is not passed on: a proxy with a certificate needs the broker"
    else:
        return
    detail = repr(client.principal[:_TEXT_MAX])
    raise NotWelcome(text, AUTHENTICATION_ERROR, FrameFault.NOT_AUTHENTICATED, detail)


def _text(fields: Fields, number: int) -> str:
    value = fields.get(number, b"")
    assert isinstance(value, bytes)
    return value.decode()

"""CONNECT: which broker a client wants to be led to, and who it says it is.

*Which broker.* Only a proxy heeds ``proxy_to_broker_url``. The gate leads to one broker; who asks for
another one is refused, or the gate would be a way into the network behind it.

*Who.* Tokens, OAuth2 and basic credentials lie in CONNECT, and the broker judges them; they pass as they
are. A certificate lies in the TLS session, which ends at the gate. Where the gate shows the broker a
certificate of its own, that is what the broker sees for method ``tls``, so the gate *vouches*: it says
who the client is in ``original_principal``, as Pulsar's proxy does. The broker believes that of roles in
its ``proxyRoles``, and both roles, the gate's and the client's, must be allowed what the client does. The
principal is the common name of the client's certificate, as AuthenticationProviderTls has it.

A gate that vouches must not be borrowed. Method ``tls`` without a certificate, or with a principal that
the client names itself, is refused; and every CONNECT is written anew from the fields that were judged,
since protobuf would merge what is said twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.gate.commands import ConnectCommand
from coordinator.gate.frames import FrameFault
from coordinator.gate.own_frames import AUTHENTICATION_ERROR, SERVICE_NOT_READY, connect_frame
from coordinator.gate.stream import Decision, Verdict

_TLS: Final = "tls"
_ORIGINAL_PRINCIPAL: Final = 7
#: What says who a client is: the old method, data and method, and the same for who is behind a proxy.
_CREDENTIALS: Final = (2, 3, 5, 7, 8, 9)
_METHOD: Final = 5
_TEXT_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Client:
    """Who is at the other end.

    Args:
        host: its address; empty is not known.
        principal: the common name of the certificate that it has shown; empty is none.
    """

    host: str = ""
    principal: str = ""


class NotWelcome(Exception):
    """The client is refused; the message says why, to the client.

    Args:
        error: the ServerError that it is told.
        fault: why, for counting.
        detail: what was found, for the log.
    """

    def __init__(self, text: str, error: int, fault: FrameFault, detail: str) -> None:
        super().__init__(text)
        self.error = error
        self.fault = fault
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a CONNECT may say here.

    Args:
        targets: host:port of our broker, by all names that it goes by.
        vouches: whether the gate shows the broker a certificate of its own.
    """

    targets: frozenset[str] = frozenset()
    vouches: bool = False

    def judge(self, command: ConnectCommand, client: Client) -> Decision:
        """Let a CONNECT pass, or write another one in its place.

        Raises:
            NotWelcome: the client is refused.
        """
        target = command.proxy_target
        if target and target not in self.targets:
            text = f"not {target[:_TEXT_MAX]}: this gate leads to {', '.join(sorted(self.targets))} only"
            detail = repr(target[:_TEXT_MAX])
            raise NotWelcome(text, SERVICE_NOT_READY, FrameFault.FOREIGN_BROKER, detail)
        if not self.vouches:
            return Verdict.PASSES
        fields = dict(command.fields)
        if command.method == _TLS:
            _check(command, client)
            for number in _CREDENTIALS:
                fields.pop(number, None)
            fields[_METHOD] = _TLS.encode()
            fields[_ORIGINAL_PRINCIPAL] = client.principal.encode()
        return connect_frame(fields)


def _check(command: ConnectCommand, client: Client) -> None:
    """Refuse whoever would go by the gate's own certificate, or by a name of its choice."""
    if not client.principal:
        text = "method tls needs TLS and a certificate with a common name, shown to this gate"
    elif command.names_original:
        text = "original_principal is not passed on: a proxy with a certificate needs the broker"
    else:
        return
    detail = repr(client.principal[:_TEXT_MAX])
    raise NotWelcome(text, AUTHENTICATION_ERROR, FrameFault.NOT_AUTHENTICATED, detail)

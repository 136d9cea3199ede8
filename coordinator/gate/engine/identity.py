"""The role of a connection: who the client is, as far as it has proved that to this gate or its broker.

A claim alone proves nothing. Three things do:

* a token whose signature and times hold by the keys of this gate, which are the admin API's;
* a certificate that the gate's TLS has checked: its common name is the role. A token goes first, as at
  the broker, which never sees the certificate;
* the user of method ``basic``, if the operator says that the brokers ask for its password: nothing counts
  for a connection before its broker has accepted it, and the broker judges what passes unchanged.

Pulsar's proxy names its client in ``original_principal``. The broker believes that of the roles in its
``proxyRoles``, and so does the gate of those that the operator has named.

Any other client is `ANONYMOUS`, which is a role like others: the default, or an attachment of its own,
limits it. What the broker refuses is none of this: its connection ends.

A token that comes later, as the answer to the broker's AUTH_CHALLENGE, counts from then on. One that does
not hold changes nothing: the broker closes such a connection, and until then it keeps its limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.core.owners import ANONYMOUS
from coordinator.gate.protocol.connect_policy import Client
from coordinator.gate.protocol.frames import Fields, read_message
from coordinator.gate.protocol.schema import AUTH_DATA
from coordinator.ports import TokenRefused, Verifier

_TOKEN: Final = "token"  # noqa: S105 - the method's name
_BASIC: Final = "basic"

#: Of CONNECT: the method, its data, and the principal that a proxy names.
_METHOD: Final = 5
_DATA: Final = 3
_ORIGINAL_PRINCIPAL: Final = 7
#: Of AUTH_RESPONSE, and of the message in it.
_RESPONSE: Final = 2
_RESPONSE_DATA: Final = 2


@dataclass(frozen=True, slots=True)
class IdentityRules:
    """The proofs of a role that this gate believes.

    Args:
        verifier: reads tokens; None believes none.
        basic: whether the broker asks users of method basic for their passwords.
        proxy_roles: roles that may name their client.
    """

    verifier: Verifier | None = None
    basic: bool = False
    proxy_roles: frozenset[str] = frozenset()


NO_IDENTITIES: Final = IdentityRules()
"""Certificates alone prove a role."""


class Identity:
    """The role of one connection.

    Args:
        rules: what proves a role.
    """

    def __init__(self, rules: IdentityRules) -> None:
        self._rules = rules
        self._method = ""
        self._is_named_by_proxy = False
        self.role = ANONYMOUS

    def connected(self, command: Fields, client: Client) -> None:
        """Take the fields of CONNECT, and what the socket tells of the client."""
        self._method = _text(command, _METHOD)
        own = self._proved(_bytes(command, _DATA)) or client.principal or ANONYMOUS
        original = _text(command, _ORIGINAL_PRINCIPAL)
        self._is_named_by_proxy = bool(original) and own in self._rules.proxy_roles
        self.role = original if self._is_named_by_proxy else own

    def answered(self, response: Fields) -> None:
        """Take the fields of AUTH_RESPONSE."""
        if self._method != _TOKEN:
            return
        message = _bytes(response, _RESPONSE)
        data = _bytes(read_message(message, 0, len(message), AUTH_DATA), _RESPONSE_DATA)
        proved = self._proved(data)
        # A proxy renews its own token, too, and goes on speaking for its client.
        if proved and not (self._is_named_by_proxy and proved in self._rules.proxy_roles):
            self.role = proved

    def _proved(self, data: bytes) -> str:
        """Return the role that this data proves by the connection's method; empty if it proves none."""
        try:
            text = data.decode()
            if self._method == _TOKEN and self._rules.verifier is not None:
                return self._rules.verifier.role_of(text)
        except (TokenRefused, UnicodeDecodeError):
            return ""
        if self._method == _BASIC and self._rules.basic:
            user, colon, _ = text.partition(":")
            return user if colon else ""
        return ""


def _text(fields: Fields, number: int) -> str:
    return _bytes(fields, number).decode()


def _bytes(fields: Fields, number: int) -> bytes:
    value = fields.get(number, b"")
    assert isinstance(value, bytes)
    return value

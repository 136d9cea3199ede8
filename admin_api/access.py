"""Who is calling, and what that role may do.

Three kinds of callers. A *super-user* may do everything. A *tenant admin* may attach and detach his own
tenant and its namespaces, and limit its topics. Everybody else with a valid token may read, apart from
the audit trail. With access control off (only possible on loopback, see coordinator.config) everybody
is ``anonymous`` and may do everything.

Pulsar answers 401 to callers it does not allow; here 401 means "say who you are" and 403 "you may not",
as HTTP has it and PIP-82 promises. Both carry a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

ANONYMOUS = "anonymous"
_SCHEME = "bearer "


class NotIdentified(Exception):
    """A caller who has not shown who he is; the text may be shown to him."""


class TokenRefused(Exception):
    """A token that proves nothing; the text says why, and may be shown to whoever sent it."""


class Verifier(Protocol):
    """Says which role a token stands for; `admin_api.tokens` has the one there is.

    That one stands on a library of cryptography, of 8 MB: only who checks tokens loads it.
    """

    def role_of(self, token: str) -> str:
        """The role that a valid token stands for.

        Raises:
            TokenRefused: it proves nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """The rules.

    Args:
        verifier: reads tokens; None is access control off.
        super_user_roles: may do everything.
        tenant_admins: tenant to the roles that may attach and detach it and its namespaces.
    """

    verifier: Verifier | None = None
    super_user_roles: Sequence[str] = ()
    tenant_admins: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def role_of(self, authorization: str | None) -> str:
        """The role behind an ``Authorization`` header.

        Raises:
            NotIdentified: it proves nothing.
        """
        if self.verifier is None:
            return ANONYMOUS
        if authorization is None:
            raise NotIdentified("A token is needed")
        if not authorization.lower().startswith(_SCHEME):
            raise NotIdentified("The Authorization header must be `Bearer` and a token")
        try:
            return self.verifier.role_of(authorization[len(_SCHEME) :].strip())
        except TokenRefused as error:
            raise NotIdentified(str(error)) from error

    def is_super_user(self, role: str) -> bool:
        """Whether the role may do everything."""
        return self.verifier is None or role in self.super_user_roles

    def is_admin_of(self, role: str, tenant: str) -> bool:
        """Whether the role may attach and detach a tenant and its namespaces."""
        return self.is_super_user(role) or role in self.tenant_admins.get(tenant, ())

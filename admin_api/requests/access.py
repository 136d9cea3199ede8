"""The role of a caller, and its rights.

There are three kinds of callers. A *super-user* may do everything. A *tenant admin* may attach his own
tenant, its namespaces and subscriptions to groups that allow his tenant, detach them, and limit its
topics; of what all tenants share he may use a part (coordinator.ports.shares). Any other caller with a
valid token may read, apart from the audit trail. With access control off (only possible on loopback, see
coordinator.config) every caller is ``anonymous`` and may do everything.

Pulsar answers 401 to callers it does not allow; here 401 means "say who you are" and 403 "you may not",
as HTTP has it and PIP-82 promises. Both carry a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.ports import TokenRefused, Verifier

ANONYMOUS = "anonymous"
_SCHEME = "bearer "


class NotIdentified(Exception):
    """The caller has not shown who he is; the text may be shown to him."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of access.

    Args:
        verifier: reads tokens; None is access control off.
        super_user_roles: may do everything.
        tenant_admins: tenant to the roles that may attach and detach it and its namespaces.
    """

    verifier: Verifier | None = None
    super_user_roles: Sequence[str] = ()
    tenant_admins: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def role_of(self, authorization: str | None) -> str:
        """Return the role of an ``Authorization`` header.

        Raises:
            NotIdentified: the header proves no role.
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
        """Return whether the role may do everything."""
        return self.verifier is None or role in self.super_user_roles

    def is_admin_of(self, role: str, tenant: str) -> bool:
        """Return whether the role may attach and detach a tenant and its namespaces."""
        return role in self.tenant_admins.get(tenant, ())

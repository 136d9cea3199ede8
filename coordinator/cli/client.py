"""The admin API as a Python class: one method per question, one exception per kind of failure.

A refused request raises the reason that the API gave. If the API cannot be reached, or another server
answers in its place, the error is a line with the URL and the remedy.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx

from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.fields import FieldValue
from coordinator.cli.owners import path_of
from coordinator.core.answer import read
from coordinator.core.model import Dimension
from coordinator.insight.model.conditions import ConditionView
from coordinator.insight.model.definitions import AuditView, Definition
from coordinator.insight.model.operations import OperationView
from coordinator.insight.model.reconciliation_views import ReconciliationView
from coordinator.insight.model.trees import TreeView
from coordinator.insight.model.views import (
    Explanation,
    GroupCertificatesView,
    GroupUsageView,
    HealthView,
    PastDecisionView,
)
from coordinator.native.engine.views import NativeState
from coordinator.runtime.client_tls import machine_trust

T = TypeVar("T")

_TIMEOUT_S = 10.0
_WRONG_USE = frozenset({400, 413})
_HOW_TO_REACH = "Is the sidecar running there? Name another one with --api or PULSAR_QUOTA_API."


class NoSuchEntry(CommandFailed):
    """The API answered 404."""


class AdminClient:
    """Talks to one sidecar's admin API; close it, or use it in a ``with`` statement.

    Args:
        url: URL of the API, for example http://127.0.0.1:8087.
        token: sent as Bearer; None sends none.
        trust: the authorities that may certify an https API, and the certificate to show it; None is
            the system's authorities, and no certificate.
        transport: carries the requests; None is the network.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        trust: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers=headers,
                timeout=_TIMEOUT_S,
                verify=machine_trust(self.url) if trust is None else trust,
                transport=transport,
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise WrongUse(f"--api {url} or its token cannot be used: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()

    def definitions(self) -> list[Definition]:
        """Return every resource group in full."""
        return self._as(list[Definition], self._read_pages("/quota/v1/groups"))

    def definition(self, name: str) -> Definition:
        """Return one resource group in full."""
        return self.tagged_definition(name)[0]

    def tagged_definition(self, name: str) -> tuple[Definition, str]:
        """Return one resource group in full, and the tag of exactly this definition."""
        response = self._send("GET", f"/quota/v1/groups/{_segment(name)}")
        return self._as(Definition, self._json(response)), response.headers.get("etag", "*")

    def put_group(
        self,
        name: str,
        fields: Mapping[str, FieldValue],
        condition: Mapping[str, str] | None = None,
    ) -> int | None:
        """Create a group or change the given fields, if the condition's header allows it.

        Returns:
            The operation that follows the change; None when nothing has changed.
        """
        path = f"/admin/v2/resourcegroups/{_segment(name)}"
        return _operation_of(self._send("PUT", path, dict(fields), headers=condition))

    def delete_group(self, name: str) -> None:
        """Delete a group."""
        self._send("DELETE", f"/admin/v2/resourcegroups/{_segment(name)}")

    def attach(self, owner: str, group: str) -> int | None:
        """Attach an owner (`owners`) to a group; returns as put_group."""
        return _operation_of(self._send("POST", f"{_owner_path(owner)}/{_segment(group)}"))

    def attached_group(self, owner: str) -> str:
        """Return the group that an owner is attached to; empty if there is none."""
        return self._send("GET", _owner_path(owner)).text

    def detach(self, owner: str) -> int | None:
        """Detach an owner from its group; returns as put_group."""
        return _operation_of(self._send("DELETE", _owner_path(owner)))

    def operations(self, limit: int, group: str | None = None) -> list[OperationView]:
        """Return the newest changes, under way or ended, newest first."""
        query = {"limit": str(limit)} | ({"group": group} if group else {})
        return self._as(list[OperationView], self._read("/quota/v1/operations", query))

    def operation(self, operation_id: int) -> OperationView:
        """Return one change, under way or ended."""
        return self._as(OperationView, self._read(f"/quota/v1/operations/{operation_id}"))

    def usage(self) -> list[GroupUsageView]:
        """Return the rates that every broker admits of every group."""
        return self._as(list[GroupUsageView], self._read_pages("/quota/v1/usage"))

    def group_usage(self, group: str) -> GroupUsageView:
        """Return the rates that every broker admits of one group."""
        return self._as(GroupUsageView, self._read(f"/quota/v1/usage/{_segment(group)}"))

    def explain(
        self,
        group: str,
        dimension: Dimension,
        broker: str | None = None,
        age_millis: int = 0,
        *,
        story: bool = False,
    ) -> Explanation:
        """Return the reasons for a broker's local limit, now or at an earlier time.

        Args:
            group: the group.
            dimension: the dimension.
            broker: the broker of the limit; None is the sidecar's own.
            age_millis: age of the decision; 0 is now.
            story: whether to list the events behind it; the sidecar's own broker only.
        """
        query = {"dimension": dimension.value} | ({"broker": broker} if broker else {})
        if age_millis:
            query["ageMillis"] = str(age_millis)
        if story:
            query["story"] = "true"
        return self._as(Explanation, self._read(f"/quota/v1/explain/{_segment(group)}", query))

    def decisions(self, group: str, dimension: Dimension, limit: int) -> list[PastDecisionView]:
        """Return the decisions on the sidecar's own limit, newest first."""
        query = {"dimension": dimension.value, "limit": str(limit)}
        told = self._read(f"/quota/v1/decisions/{_segment(group)}", query)
        return self._as(list[PastDecisionView], told)

    def certificates(self) -> list[GroupCertificatesView]:
        """Return the most that each group's local limits can add up to now."""
        return self._as(list[GroupCertificatesView], self._read_pages("/quota/v1/certificate"))

    def certificate(self, group: str) -> GroupCertificatesView:
        """Return the most that one group's local limits can add up to now."""
        told = self._read(f"/quota/v1/certificate/{_segment(group)}")
        return self._as(GroupCertificatesView, told)

    def trees(self, dimension: Dimension) -> list[TreeView]:
        """Return all trees of groups in one dimension."""
        path = f"/quota/v1/trees?dimension={dimension.value}"
        return self._as(list[TreeView], self._read_pages(path))

    def tree(self, group: str, dimension: Dimension) -> TreeView:
        """Return the tree that a group belongs to."""
        query = {"dimension": dimension.value}
        return self._as(TreeView, self._read(f"/quota/v1/trees/{_segment(group)}", query))

    def log_level(self) -> str:
        """Return the level of the sidecar's log."""
        return str(self._read("/quota/v1/log-level")["level"])

    def set_log_level(self, level: str) -> None:
        """Set the level of the sidecar's log."""
        self._send("PUT", "/quota/v1/log-level", {"level": level})

    def conditions(self) -> list[ConditionView]:
        """Return the conditions that hold at the sidecar, the worst first."""
        return self._as(list[ConditionView], self._read("/quota/v1/conditions"))

    def health(self) -> HealthView:
        """Return the state of the sidecar."""
        return self._as(HealthView, self._read("/quota/v1/health"))

    def audit_entries(self, limit: int) -> list[AuditView]:
        """Return the newest changes, newest first."""
        return self._as(list[AuditView], self._read("/quota/v1/audit", {"limit": str(limit)}))

    def roll_back(self, entry_id: int) -> None:
        """Undo one change."""
        self._send("POST", f"/quota/v1/audit/{entry_id}/rollback")

    def native(self) -> NativeState:
        """Return the state of native enforcement."""
        return self._as(NativeState, self._read("/quota/v1/native"))

    def reconciliation(self) -> ReconciliationView:
        """Return the traffic that goes round the gate."""
        return self._as(ReconciliationView, self._read("/quota/v1/reconciliation"))

    def faults(self) -> dict[str, str]:
        """Return the store's entries that cannot be read: path to reason."""
        return self._as(dict[str, str], self._read("/quota/v1/catalogue/faults"))

    def clock_ahead_s(self) -> float | None:
        """Return the seconds by which the sidecar's clock is ahead of ours; None if it does not say."""
        stamp = self._send("GET", "/quota/v1/health").headers.get("date")
        if stamp is None:
            return None
        return (parsedate_to_datetime(stamp) - datetime.now(UTC)).total_seconds()

    def _as(self, form: type[T], told: object) -> T:
        try:
            return read(form, told)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise CommandFailed(
                f"{self.url} answers in a form that this release does not know ({error}). "
                "Use the command of that sidecar's release."
            ) from error

    def _read(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return self._json(self._send("GET", path, query=query))

    def _read_pages(self, path: str) -> list[Any]:
        """Return a whole list; each page names the next one in its Link header (RFC 8288)."""
        found: list[Any] = []
        following: str | None = path
        while following is not None:
            response = self._send("GET", following)
            page = self._json(response)
            if not isinstance(page, list):
                raise self._stranger()
            found += page
            following = response.links.get("next", {}).get("url")
        return found

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError as error:
            raise self._stranger() from error

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        try:
            response = self._http.request(method, path, json=body, params=query, headers=headers)
        except httpx.TimeoutException as error:
            reason = f"{self.url} did not answer within {_TIMEOUT_S:g} s. {_HOW_TO_REACH}"
            raise CommandFailed(reason) from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise WrongUse(
                f"--api {self.url} is no URL: write it like http://127.0.0.1:8087"
            ) from error
        except httpx.HTTPError as error:
            raise CommandFailed(f"Cannot reach {self.url} ({error}). {_HOW_TO_REACH}") from error
        if response.is_success:
            return response
        raise self._failure(response)

    def _failure(self, response: httpx.Response) -> CommandFailed:
        try:
            reason = str(response.json()["reason"])
        except (ValueError, KeyError, TypeError):
            return self._stranger()
        if response.status_code in _WRONG_USE:
            return WrongUse(reason)
        if response.status_code in (401, 403):
            return CommandFailed(f"{reason}. Send a token with --token or PULSAR_QUOTA_TOKEN.")
        return NoSuchEntry(reason) if response.status_code == 404 else CommandFailed(reason)

    def _stranger(self) -> CommandFailed:
        return CommandFailed(
            f"What answers at {self.url} is not the admin API of a sidecar. "
            "Name its address, host:port of admin_listen, with --api or PULSAR_QUOTA_API."
        )


def _operation_of(response: httpx.Response) -> int | None:
    named = response.headers.get("pulsar-quota-operation", "")
    return int(named) if named.isdecimal() else None


def _segment(name: str) -> str:
    quoted = quote(name, safe="")
    # "." and ".." would be removed from the path on the way, and the segment before with them.
    return quoted if name.strip(".") else quoted.replace(".", "%2E")


def _owner_path(owner: str) -> str:
    beginning, *names = path_of(owner)
    return "/".join([beginning, *map(_segment, names), "resourcegroup"])

"""The admin API as a Python class: answers in their types, and one exception per kind of failure.

A refused request raises the reason that the API gave. If the API cannot be reached, or another server
answers in its place, the error is a line with the URL and the remedy.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx

from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.fields import FieldValue
from coordinator.cli.owners import path_of
from coordinator.cli.whole_answers import AnswerTooLarge, WholeAnswers, in_words
from coordinator.core.answer import read
from coordinator.insight.model.definitions import Definition
from coordinator.insight.model.views import HealthView
from coordinator.runtime.client_tls import machine_trust

T = TypeVar("T")

PAGES_MAX = 10_000
"""Pages of one list: five million groups of a sidecar."""

_WITHIN_S = 10.0
_TOKEN = re.compile(r"[\x21-\x7e]+")
_WRONG_USE = frozenset({400, 413})
_HOW_TO_REACH = "Is the sidecar running there? Name another one with --api or PULSAR_QUOTA_API."

_WHAT_TO_NAME = (
    "Name a sidecar's address, host:port of admin_listen, with --api or PULSAR_QUOTA_API."
)

_NO_URL = (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError)
"""The last one is of the resolver: a host that cannot be a name, such as a..b."""


class NoSuchEntry(CommandFailed):
    """The API answered 404."""


class NotIdentifiedHere(CommandFailed):
    """The API answered 401: it takes tokens, and none that was sent."""


def bearer(option: str, token: str | None) -> dict[str, str]:
    """Return the header that shows a token; none without one.

    Args:
        option: names the token where it is none.
        token: as it was given.

    Raises:
        WrongUse: it is none; the message does not repeat it.
    """
    if not token:
        return {}
    if not _TOKEN.fullmatch(token):
        raise WrongUse(
            f"{option}: a token has neither spaces nor line breaks, and only letters of ASCII; give it "
            "alone"
        )
    return {"Authorization": f"Bearer {token}"}


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
        self._is_sidecar = False  # as far as is known
        headers = bearer("--token or PULSAR_QUOTA_TOKEN", token)
        try:
            self._http = WholeAnswers(
                partial(
                    httpx.Client,
                    base_url=self.url,
                    headers=headers,
                    timeout=_WITHIN_S,
                    verify=machine_trust(self.url) if trust is None else trust,
                    transport=transport,
                    trust_env=False,  # by the way that the sidecars take: round any proxy
                ),
                _WITHIN_S,
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise WrongUse(f"--api {url} cannot be used: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()

    def get(self, form: type[T], *names: str, **query: str | int | None) -> T:
        """Return the answer of a path below /quota/v1.

        Args:
            form: the answer's type.
            names: the parts of the path.
            query: the parameters; one that is None is left out.
        """
        given = {name: str(value) for name, value in query.items() if value is not None}
        return self._as(form, self._json(self.send("GET", _path(*names), query=given)))

    def pages(self, form: type[T], *names: str, **query: str) -> list[T]:
        """Return a whole list, whose answers are pages."""
        found: list[T] = []
        for page in self._answers(_path(*names), query):
            if not isinstance(page, list):
                raise self._stranger()
            found += self._as(list[form], page)  # type: ignore[valid-type]
        return found

    def parts(self, form: type[T], *names: str) -> list[T]:
        """Return the pages of an answer, each with the same facts and further entries."""
        return [self._as(form, page) for page in self._answers(_path(*names))]

    def _answers(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[Any]:
        """Yield the pages of an answer; each names the next one in its Link header (RFC 8288)."""
        for _ in range(PAGES_MAX):
            response = self.send("GET", path, query=query)
            yield self._json(response)
            following = response.links.get("next", {}).get("url")
            if following is None:
                return
            path, query = following, None
        raise self._stranger()  # its pages never end

    def health(self) -> HealthView:
        """Return the state of the sidecar."""
        return self.get(HealthView, "health")

    def definitions(self) -> list[Definition]:
        """Return every resource group in full."""
        return self.pages(Definition, "groups")

    def definition(self, name: str) -> Definition:
        """Return one resource group in full."""
        return self.tagged_definition(name)[0]

    def tagged_definition(self, name: str) -> tuple[Definition, str]:
        """Return one resource group in full, and the tag of exactly this definition."""
        response = self.send("GET", _path("groups", name))
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
        return self._change("PUT", path, dict(fields), condition)

    def delete_group(self, name: str) -> None:
        """Delete a group."""
        self._change("DELETE", f"/admin/v2/resourcegroups/{_segment(name)}")

    def attach(self, owner: str, group: str) -> int | None:
        """Attach an owner (`owners`) to a group; returns as put_group."""
        return self._change("POST", f"{_owner_path(owner)}/{_segment(group)}")

    def attached_group(self, owner: str) -> str:
        """Return the group that an owner is attached to; empty if there is none."""
        self._require_sidecar()
        return self.send("GET", _owner_path(owner)).text

    def detach(self, owner: str) -> int | None:
        """Detach an owner from its group; returns as put_group."""
        return self._change("DELETE", _owner_path(owner))

    def _change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> int | None:
        self._require_sidecar()
        return _operation_of(self.send(method, path, body, headers=headers))

    def _require_sidecar(self) -> None:
        """Raise CommandFailed unless a sidecar answers.

        Pulsar's brokers have the paths below /admin/v2, too: where the URL is a broker's, a change would
        be one of Pulsar's own groups, which no sidecar limits.
        """
        if not self._is_sidecar:
            self.health()
            self._is_sidecar = True

    def clock_ahead_s(self) -> float | None:
        """Return the seconds by which the sidecar's clock is ahead of ours; None if it does not say."""
        stamp = self.send("GET", _path("health")).headers.get("date")
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

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise self._stranger() from error

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Return the response to a request.

        Raises:
            CommandFailed: the API refused it or cannot be reached; `NoSuchEntry`, `WrongUse` among them.
        """
        try:
            response = self._http.request(method, path, body=body, query=query, headers=headers)
        except AnswerTooLarge as error:
            raise CommandFailed(f"{self.url} gave {error}. {_WHAT_TO_NAME}") from error
        except httpx.TimeoutException as error:
            reason = f"{self.url} gave no whole answer within {_WITHIN_S:g} s. {_HOW_TO_REACH}"
            raise CommandFailed(reason) from error
        except _NO_URL as error:
            raise WrongUse(
                f"--api {self.url} is no URL: write it like http://127.0.0.1:8087"
            ) from error
        except httpx.HTTPError as error:
            reason = f"Cannot reach {self.url} ({in_words(error)}). {_HOW_TO_REACH}"
            raise CommandFailed(reason) from error
        if response.is_success:
            return response
        raise self._failure(response)

    def _failure(self, response: httpx.Response) -> CommandFailed:
        try:
            reason = str(response.json()["reason"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return self._stranger()
        if response.status_code in _WRONG_USE:
            return WrongUse(reason)
        if response.status_code == 401:
            return NotIdentifiedHere(f"{reason}. Send a token with --token or PULSAR_QUOTA_TOKEN.")
        if response.status_code == 403:
            return CommandFailed(
                f"{reason}. --token or PULSAR_QUOTA_TOKEN takes the token of another role."
            )
        return NoSuchEntry(reason) if response.status_code == 404 else CommandFailed(reason)

    def _stranger(self) -> CommandFailed:
        return CommandFailed(
            f"What answers at {self.url} is not the admin API of a sidecar. {_WHAT_TO_NAME}"
        )


def _path(*names: str) -> str:
    return "/".join(["/quota/v1", *map(_segment, names)])


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

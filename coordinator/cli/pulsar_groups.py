"""The resource groups of a running Pulsar, read through its admin REST.

Pulsar accepts values that we do not: a rate of 0 or below (it means "not limited" there, and is taken
over as such), and names that cannot be a node's name (left out). A note tells of both.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

import httpx

from coordinator.cli.client import bearer
from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.fields import DIMENSION_NAMES
from coordinator.cli.manifest import Declared
from coordinator.cli.whole_answers import WholeAnswers, in_words
from coordinator.core.answer import UNLIMITED
from coordinator.runtime.client_tls import machine_trust
from coordinator.wire.documents import validate_name

_WITHIN_S = 30.0


def read_pulsar(
    url: str, token: str | None, transport: httpx.BaseTransport | None
) -> tuple[dict[str, Declared], list[str]]:
    """Return the groups to declare here by name, and notes for the user.

    Raises:
        CommandFailed: the broker does not answer, or gives another answer.
        WrongUse: the URL is not valid.
    """
    if not url.startswith(("http://", "https://")):
        raise WrongUse(f"--from {url}: write it like http://127.0.0.1:8080")
    headers = bearer("--source-token or PULSAR_TOKEN", token)
    try:
        open_client = partial(
            httpx.Client,
            base_url=f"{url.rstrip('/')}/admin/v2",
            headers=headers,
            timeout=_WITHIN_S,
            verify=machine_trust(url),
            transport=transport,
            follow_redirects=True,
            trust_env=False,
        )
        with WholeAnswers(open_client, _WITHIN_S) as http:
            return _Reader(http).read()
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        raise WrongUse(f"--from {url} cannot be used: {error}") from error
    except httpx.HTTPStatusError as error:
        answer = error.response
        raise CommandFailed(
            f"Pulsar answered {answer.status_code} to GET {answer.url.path}: {answer.text:.200}"
        ) from error
    except (httpx.HTTPError, ValueError) as error:
        raise CommandFailed(f"Cannot read Pulsar's groups at {url}: {in_words(error)}") from error


class _Reader:
    """Reads what a broker has; an answer of another form than Pulsar's raises ValueError."""

    def __init__(self, http: WholeAnswers) -> None:
        self._http = http
        self._notes: list[str] = []

    def read(self) -> tuple[dict[str, Declared], list[str]]:
        fields: dict[str, dict[str, int | str]] = {}
        for name in self._names("/resourcegroups"):
            try:
                validate_name(name)
            except ValueError as error:
                self._notes.append(f"! left out: {error}")
            else:
                fields[name] = self._fields(name)
        attached: dict[str, list[str]] = {name: [] for name in fields}
        for namespace in self._namespaces():
            group = self._group_of(namespace)
            if group in attached:
                attached[group].append(f"namespaces/{namespace}")
            elif group:
                self._notes.append(
                    f"! left out: {namespace} is attached to {group}, which is not there"
                )
        declared = {name: Declared(found, tuple(attached[name])) for name, found in fields.items()}
        return declared, self._notes

    def _fields(self, name: str) -> dict[str, int | str]:
        path = f"/resourcegroups/{quote(name, safe='')}"
        found = self._get(path)
        if not isinstance(found, dict):
            raise ValueError(f"GET {path} answered no resource group")  # noqa: TRY004
        fields: dict[str, int | str] = {}
        for field in DIMENSION_NAMES:
            rate = found.get(field)
            if rate is not None and type(rate) is not int:
                raise ValueError(
                    f"GET {path} answered {field} {rate!r:.40}, which is no whole number"
                )
            if rate is not None and rate <= 0 and rate != UNLIMITED:
                self._notes.append(f"! {name}: {field} {rate} is not limited in Pulsar, hence -1")
            fields[field] = rate if rate is not None and rate > 0 else UNLIMITED
        return fields

    def _namespaces(self) -> list[str]:
        tenants = self._names("/tenants")
        return [name for tenant in tenants for name in self._names(f"/namespaces/{tenant}")]

    def _group_of(self, namespace: str) -> str:
        answer = self._http.request("GET", f"/namespaces/{namespace}/resourcegroup")
        answer.raise_for_status()
        return answer.text.strip().strip('"')

    def _names(self, path: str) -> list[str]:
        found = self._get(path)
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ValueError(f"GET {path} answered no list of names")
        return found

    def _get(self, path: str) -> Any:
        answer = self._http.request("GET", path)
        answer.raise_for_status()
        try:
            return answer.json()
        except (ValueError, RecursionError) as error:
            raise ValueError(f"GET {path} answered no JSON, as a broker would") from error

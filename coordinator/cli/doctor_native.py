"""``doctor --native``: what brokers lack for native enforcement, and a configuration for each sidecar.

It needs no sidecar and no file. One broker names all others, and each tells its own configuration, which
says whether it reads entries, how often, in whose name it reports, and where its ZooKeeper is.
"""

from __future__ import annotations

import json
import re
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from coordinator.adapters.broker.native_admin import facts_in
from coordinator.cli.client import bearer
from coordinator.cli.failures import WrongUse
from coordinator.cli.findings import Finding, note, ok, wrong
from coordinator.cli.output import counted
from coordinator.cli.whole_answers import WholeAnswers, in_words
from coordinator.native.engine.conditions import SLOW_INTERVAL_S, TRANSPORT
from coordinator.native.engine.outside import BrokerFacts
from coordinator.runtime.client_tls import machine_trust

BROKERS_MAX: Final = 1_000
"""A cluster has fewer; a server that lists more is no broker."""

_WITHIN_S = 5.0
_ADMIN = "/admin/v2"
LINES: Final = (
    f"resourceUsageTransportClassName={TRANSPORT}",
    "resourceUsageTransportPublishIntervalInSecs=1",
)
"""Of broker.conf, with which a broker reads entries each second."""
_PORT = re.compile(r"Optional\[(\d+)\]")
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}")
_NOT_OF_AN_ID = re.compile(r"[^A-Za-z0-9._-]")
_NAMED_MAX = 3
"""Names of groups that are shown."""


@dataclass(frozen=True, slots=True)
class _Broker:
    """A broker: its name for the sidecar, its web service, and the configuration that it told."""

    name: str
    url: str
    told: Mapping[str, Any]


class BrokerRefused(Exception):
    """A broker did not answer, or not as one; the message says what it was asked, and what it said."""


class AskedBrokers:
    """The admin REST of a cluster's brokers; a context, at whose end its connections close.

    Args:
        url: the web service of one broker.
        token: sent as bearer token, a super-user's; None sends none.
        trust: TLS settings; None is the machine's trust.
        transport: carries the requests; None is the network.

    Raises:
        WrongUse: the URL is none of a web service, or the token is none.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        trust: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._scheme = _scheme_of(url)
        self._url = url.rstrip("/")
        self._client = WholeAnswers(
            partial(
                httpx.Client,
                headers=bearer("--broker-token-file", token),
                timeout=_WITHIN_S,
                verify=trust or machine_trust(url),
                transport=transport,
                trust_env=False,
            ),
            _WITHIN_S,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def urls(self) -> list[str]:
        """Return the web services of all brokers, of which one is asked.

        Raises:
            BrokerRefused: it does not say.
        """
        found = self._get(self._url, "/brokers")
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise BrokerRefused(f"{self._url}{_ADMIN}/brokers answered no list of brokers")
        wrong_one = next((each for each in found if not _ADDRESS.fullmatch(each)), None)
        if wrong_one is not None:
            raise BrokerRefused(f"{self._url} lists {wrong_one:.200}, which is not host:port")
        if not found:
            raise BrokerRefused(f"{self._url} lists no brokers")
        if len(found) > BROKERS_MAX:
            raise BrokerRefused(
                f"{self._url} lists {len(found):,} brokers, more than {BROKERS_MAX:,}"
            )
        ports = self._tls_port() if self._scheme == "https" else None
        return sorted(f"{self._scheme}://{_with_port(each, ports)}" for each in found)

    def configuration(self, url: str) -> Mapping[str, Any]:
        """Return the configuration that a broker runs with. Raises BrokerRefused."""
        found = self._get(url, "/brokers/configuration/runtime")
        if not isinstance(found, dict):
            raise BrokerRefused(f"{url} answered no configuration")
        return found

    def groups(self) -> list[str]:
        """Return the resource groups that Pulsar has. Raises BrokerRefused."""
        found = self._get(self._url, "/resourcegroups")
        if not isinstance(found, list):
            raise BrokerRefused(f"{self._url}{_ADMIN}/resourcegroups answered no list of groups")
        return sorted(map(str, found))

    def _tls_port(self) -> str | None:
        found = _PORT.fullmatch(str(self.configuration(self._url).get("webServicePortTls")))
        return found[1] if found else None

    def _get(self, url: str, path: str) -> Any:
        asked = f"GET {url}{_ADMIN}{path}"
        try:
            answer = self._client.request("GET", f"{url}{_ADMIN}{path}")
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise BrokerRefused(f"{asked}: {in_words(error)}") from error
        if not answer.is_success:
            raise BrokerRefused(f"{asked} answered {answer.status_code}: {answer.text:.200}")
        try:
            return answer.json()
        except (ValueError, RecursionError) as error:
            raise BrokerRefused(f"{asked} answered no JSON, as a broker would") from error


def _scheme_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no IPv6 address
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongUse(f"--native {url}: write a broker's web service, as http://broker-1:8080")
    return parts.scheme


def examine_brokers(brokers: AskedBrokers, token_file: Path | None) -> Iterator[Finding]:
    """Say what native enforcement lacks at every broker, and how each sidecar is configured.

    Args:
        brokers: the cluster's.
        token_file: holds the token that they were asked with; sidecars need one, too.
    """
    try:
        urls = brokers.urls()
    except BrokerRefused as failure:
        fix = "Name the web service of a broker that is up, and a super-user's --broker-token-file."
        yield wrong("brokers", str(failure), fix)
        return
    yield ok("brokers", f"{counted(len(urls), 'broker')}: {', '.join(urls)}")
    found: list[_Broker] = []
    for url, name in zip(urls, _names(urls), strict=True):
        try:
            found.append(_Broker(name, url, brokers.configuration(url)))
        except BrokerRefused as failure:
            fix = "Let this machine reach it, and its super-users include this token's role."
            yield wrong("broker", str(failure), fix)
    yield from _groups(brokers)
    for broker in found:
        yield from _examined(broker, token_file)


def _examined(broker: _Broker, token_file: Path | None) -> Iterator[Finding]:
    try:
        facts = facts_in(broker.told)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fix = "Give it a brokerServicePort, or an advertised listener with pulsar://."
        yield wrong("broker", f"{broker.url} reports its use in no name: {error}", fix)
        return
    yield _reading(broker, facts)
    if not facts.topic_policies:
        text = f"{broker.url} gives topics no policies, so no limit of dispatch would be held"
        fix = "Set topicLevelPoliciesEnabled=true in its broker.conf, if groups are to limit dispatch."
        yield note("dispatch", text, fix)
    if not _zookeeper(broker.told):
        fix = "Name an ensemble as zookeeper_servers, the same one for all sidecars."
        yield note(
            "ZooKeeper", f"{broker.url} keeps its metadata elsewhere; sidecars need one", fix
        )
    file = f"{broker.name}.toml"
    fix = f"Write this to {file}, and start pulsar-quota sidecar --config {file}:"
    lines = _configuration(broker, facts, token_file)
    yield note("sidecar", f"{broker.name} would be that of {broker.url}", f"{fix}\n{lines}")


def _reading(broker: _Broker, facts: BrokerFacts) -> Finding:
    add = "Put this into its broker.conf and restart it:\n" + "\n".join(LINES)
    if facts.transport != TRANSPORT:
        return wrong(
            "broker",
            f"{broker.url} does not read Pulsar's topic of resource usage, so nothing could steer it",
            add,
        )
    if facts.interval_s > SLOW_INTERVAL_S:
        text = f"{broker.url} takes a limit up only once in {facts.interval_s} s"
        return wrong("broker", text, add)
    text = (
        f"{broker.url} reads the topic of resource usage every {facts.interval_s} s, and reports as "
        f"{facts.service_url}"
    )
    return ok("broker", text)


def _groups(brokers: AskedBrokers) -> Iterator[Finding]:
    try:
        groups = brokers.groups()
    except BrokerRefused as failure:
        yield wrong(
            "groups", str(failure), "A sidecar writes resource groups: use a super-user's token."
        )
        return
    if not groups:
        yield ok("groups", "Pulsar has no resource groups that would have to be imported")
        return
    named = ", ".join(groups[:_NAMED_MAX]) + ", ..." * (len(groups) > _NAMED_MAX)
    fix = (
        "If they are to go on, import them before the first namespace is attached through a sidecar: "
        "pulsar-quota import --from URL; a sidecar writes its own figures into Pulsar's records."
    )
    yield note("groups", f"Pulsar has {counted(len(groups), 'resource group')} ({named})", fix)


def _configuration(broker: _Broker, facts: BrokerFacts, token_file: Path | None) -> str:
    lines = {
        "broker_id": broker.name,
        "enforcement_path": "native",
        "broker_web_url": broker.url,
        "bus_service_url": facts.service_url,
        "zookeeper_servers": _zookeeper(broker.told),
    }
    if token_file is not None:
        lines |= dict.fromkeys(("broker_token_file", "bus_token_file"), str(token_file.absolute()))
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())


def _zookeeper(told: Mapping[str, Any]) -> str:
    """Return the servers of the broker's ZooKeeper without its root; empty if it has another store."""
    store = str(told.get("metadataStoreUrl") or told.get("zookeeperServers") or "")
    kind, colon, rest = store.partition(":")
    if colon and kind == "zk":
        store = rest
    elif "://" in store or not re.fullmatch(r"[^/]+:\d+(/.*)?", store):
        return ""
    return store.partition("/")[0]


def _names(urls: Sequence[str]) -> list[str]:
    """Return a name for the sidecar of each broker: its host, with the port where hosts have several."""
    hosts = [str(urlsplit(url).hostname) for url in urls]
    often = Counter(hosts)
    names = [
        host if often[host] == 1 else f"{host}-{urlsplit(url).port}"
        for host, url in zip(hosts, urls, strict=True)
    ]
    return [_NOT_OF_AN_ID.sub("-", name) for name in names]


def _with_port(address: str, port: str | None) -> str:
    return address if port is None else f"{address.rpartition(':')[0]}:{port}"

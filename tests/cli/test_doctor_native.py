"""``doctor --native`` says before the first sidecar what brokers lack, and proposes configurations."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from coordinator.cli.doctor_native import BROKERS_MAX
from coordinator.config import from_mapping
from coordinator.native.engine.conditions import TRANSPORT
from tests.cli.conftest import Run

URL = "http://b1:8080"
TOLD = {
    "advertisedAddress": "b1",
    "brokerServicePort": "Optional[6650]",
    "metadataStoreUrl": "zk:zk-1:2181,zk-2:2181/pulsar",
    "resourceUsageTransportClassName": TRANSPORT,
    "resourceUsageTransportPublishIntervalInSecs": "1",
    "webServicePortTls": "Optional[8443]",
}
Examine = Callable[..., tuple[int, list[dict[str, str]]]]


class Cluster(httpx.MockTransport):
    """Brokers that answer as Pulsar's do, or with what a test puts in its place."""

    def __init__(self, **answers: Any) -> None:
        self.answers: Mapping[str, Any] = {
            "brokers": ["b1:8080"],
            "resourcegroups": [],
            "runtime": TOLD,
            **answers,
        }
        self.asked: list[httpx.Request] = []
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        found = self.answers[request.url.path.rpartition("/")[2]]
        return found if isinstance(found, httpx.Response) else httpx.Response(200, json=found)


@pytest.fixture
def examine(run: Run) -> Examine:
    """The exit code and the findings of the doctor, for brokers."""

    def examine(cluster: Cluster, *words: str, url: str = URL) -> tuple[int, list[dict[str, str]]]:
        done = run("doctor", "--json", "--native", url, *words, carrier=cluster)
        return done.exit_code, json.loads(done.stdout)

    return examine


def of(findings: list[dict[str, str]], subject: str) -> list[dict[str, str]]:
    """The findings of a subject."""
    return [each for each in findings if each["subject"] == subject]


def configuration(finding: Mapping[str, str]) -> Mapping[str, Any]:
    """The lines that are to be copied, as TOML."""
    return tomllib.loads("\n".join(finding["fix"].splitlines()[1:]))


def test_a_cluster_that_is_ready_gets_a_configuration_for_each_sidecar(
    examine: Examine, tmp_path: Path
) -> None:
    """It is complete and consistent, and names the token that the brokers were asked with."""
    token = tmp_path / "token"
    token.write_text("secret\n")
    cluster = Cluster(brokers=["b2:8080", "b1:8080"])

    code, findings = examine(cluster, "--broker-token-file", str(token))

    assert (code, {each["level"] for each in findings}) == (0, {"ok", "note"})
    assert {each.headers["Authorization"] for each in cluster.asked} == {"Bearer secret"}
    first, second = map(configuration, of(findings, "sidecar"))
    assert (first["broker_id"], second["broker_id"]) == ("b1", "b2")
    assert first == {
        "broker_id": "b1",
        "enforcement_path": "native",
        "broker_web_url": "http://b1:8080",
        "bus_service_url": "pulsar://b1:6650",
        "zookeeper_servers": "zk-1:2181,zk-2:2181",
        "broker_token_file": str(token),
        "bus_token_file": str(token),
    }
    assert from_mapping(first).broker_id == "b1"


@pytest.mark.parametrize(
    "told",
    [
        {"resourceUsageTransportClassName": "null"},
        {"resourceUsageTransportClassName": ""},
        {"resourceUsageTransportPublishIntervalInSecs": "60"},
    ],
)
def test_a_broker_that_cannot_be_steered_is_told_with_the_lines_that_it_lacks(
    examine: Examine, told: Mapping[str, str]
) -> None:
    """The same two lines for each, with nothing around them."""
    code, findings = examine(Cluster(runtime={**TOLD, **told}))

    (broker,) = of(findings, "broker")
    assert (code, broker["level"]) == (1, "wrong")
    assert broker["fix"].splitlines()[1:] == [
        f"resourceUsageTransportClassName={TRANSPORT}",
        "resourceUsageTransportPublishIntervalInSecs=1",
    ]


def test_a_broker_whose_topics_have_no_policies_is_told(examine: Examine) -> None:
    """Publishing is held all the same."""
    told = TOLD | {"topicLevelPoliciesEnabled": "false"}
    code, findings = examine(Cluster(runtime=told))
    (found,) = of(findings, "dispatch")
    assert (code, found["level"]) == (0, "note")
    assert "topicLevelPoliciesEnabled" in found["fix"]


def test_brokers_on_one_host_are_told_apart_by_their_ports(examine: Examine) -> None:
    """As sidecars must have names of their own."""
    _, findings = examine(Cluster(brokers=["h:8080", "h:8081", "i:8080"]))

    names = [configuration(each)["broker_id"] for each in of(findings, "sidecar")]
    assert names == ["h-8080", "h-8081", "i"]


def test_https_takes_the_port_that_speaks_it(examine: Examine) -> None:
    """Brokers list themselves by their plain port, where they have one."""
    _, findings = examine(Cluster(), url="https://b1:8443")

    assert of(findings, "brokers")[0]["text"] == "1 broker: https://b1:8443"


@pytest.mark.parametrize(
    ("store", "servers"),
    [
        ({"metadataStoreUrl": "zk-1:2181"}, "zk-1:2181"),
        ({"metadataStoreUrl": "", "zookeeperServers": "zk-1:2181/root"}, "zk-1:2181"),
        ({"metadataStoreUrl": "etcd:http://e:2379"}, ""),
        ({"metadataStoreUrl": "rocksdb://data"}, ""),
    ],
)
def test_the_brokers_zookeeper_is_proposed_if_they_have_one(
    examine: Examine, store: Mapping[str, str], servers: str
) -> None:
    """Sidecars need an ensemble in any case, and that is said."""
    code, findings = examine(Cluster(runtime={**TOLD, **store}))

    (sidecar,) = of(findings, "sidecar")
    assert (code, configuration(sidecar)["zookeeper_servers"]) == (0, servers)
    assert len(of(findings, "ZooKeeper")) == (not servers)


def test_groups_that_pulsar_has_are_to_be_imported(examine: Examine) -> None:
    """A sidecar would write its own figures into their records."""
    code, findings = examine(Cluster(resourcegroups=["a", "b", "c", "d"]))

    (groups,) = of(findings, "groups")
    assert (code, groups["level"]) == (0, "note")
    assert "4 resource groups (a, b, c, ...)" in groups["text"]
    assert "pulsar-quota import" in groups["fix"]


@pytest.mark.parametrize(
    ("answers", "subject", "text"),
    [
        ({"brokers": httpx.Response(401, text="no token")}, "brokers", "answered 401: no token"),
        ({"brokers": httpx.Response(200, text="<html>")}, "brokers", "answered no JSON"),
        ({"brokers": httpx.Response(200, text="[" * 100_000)}, "brokers", "answered no JSON"),
        ({"brokers": []}, "brokers", "http://b1:8080 lists no brokers"),
        ({"brokers": {"b1": 1}}, "brokers", "no list of brokers"),
        ({"brokers": ["b1:8080/x"]}, "brokers", "lists b1:8080/x, which is not host:port"),
        ({"brokers": ["b1:8080"] * (BROKERS_MAX + 1)}, "brokers", "more than 1,000"),
        ({"runtime": httpx.Response(403, text="no")}, "broker", "answered 403: no"),
        ({"runtime": []}, "broker", "no configuration"),
        ({"runtime": {**TOLD, "brokerServicePort": "Optional.empty"}}, "broker", "in no name"),
        ({"runtime": {}}, "broker", "in no name"),
        (
            {"runtime": {**TOLD, "resourceUsageTransportPublishIntervalInSecs": []}},
            "broker",
            "in no name",
        ),
        ({"resourcegroups": httpx.Response(403, text="no")}, "groups", "answered 403"),
        ({"resourcegroups": 3}, "groups", "no list of groups"),
    ],
)
def test_an_answer_that_is_not_understood_is_told(
    examine: Examine, answers: Mapping[str, Any], subject: str, text: str
) -> None:
    """The finding has the question, the answer and the remedy."""
    code, findings = examine(Cluster(**answers))

    (found,) = of(findings, subject)
    assert (code, found["level"]) == (1, "wrong")
    assert text in found["text"]
    assert found["fix"]


def test_a_brokers_words_stay_words(run: Run) -> None:
    """Neither a terminal nor the file takes them for anything else."""
    evil = 'zk:z:1",\u001b[31m\nadmin_listen = "0.0.0.0:1'
    done = run(
        "doctor", "--native", URL, carrier=Cluster(runtime={**TOLD, "metadataStoreUrl": evil})
    )

    assert "\u001b[31m" not in done.stdout
    assert not any(line.strip().startswith("admin_listen") for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    "url", ["b1:8080", "pulsar://b1:6650", "http://", "", "http://[b1:8080", "http://[b1]:8080"]
)
def test_what_is_no_web_service_is_refused(run: Run, url: str) -> None:
    """With an example."""
    refused = run("doctor", "--native", url)

    assert refused.exit_code == 2
    assert "as http://broker-1:8080" in refused.stderr


def test_a_token_file_that_cannot_be_read_is_refused(run: Run, tmp_path: Path) -> None:
    """Before any broker is asked."""
    cluster, gone = Cluster(), str(tmp_path / "gone")

    refused = run("doctor", "--native", URL, "--broker-token-file", gone, carrier=cluster)

    assert (refused.exit_code, cluster.asked) == (2, [])
    assert f"{gone}: No such file or directory\n" in refused.stderr


def test_a_token_file_with_more_than_a_token_is_refused_and_not_repeated(
    run: Run, tmp_path: Path
) -> None:
    """Before any broker is asked."""
    cluster, file = Cluster(), tmp_path / "token"
    file.write_text("s3cret\nand more\n")

    refused = run("doctor", "--native", URL, "--broker-token-file", str(file), carrier=cluster)

    assert (refused.exit_code, cluster.asked) == (2, [])
    assert refused.stderr.startswith("--broker-token-file: a token has neither spaces nor")
    assert "s3cret" not in refused.stderr


def test_lines_to_copy_are_not_folded(run: Run) -> None:
    """However narrow the terminal is."""
    told = {**TOLD, "resourceUsageTransportClassName": "null"}
    done = run("doctor", "--native", URL, columns=60, carrier=Cluster(runtime=told))

    assert f"    resourceUsageTransportClassName={TRANSPORT}" in done.stdout.splitlines()

"""The chart, rendered by helm: what sidecars are told, checked as a sidecar checks it."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from deploy import check

pytestmark = pytest.mark.skipif(
    shutil.which("helm") is None, reason="PyPI has helm for Linux on x86-64 alone"
)

NAME_MAX = 63
LONGEST_RELEASE = "q" * 53
REVISION = "-0123456789"
"""Kubernetes adds eleven letters to the name of a StatefulSet, for a label of its pods."""
ADMIN_TLS = (
    "config.admin_tls_certificate_file=/etc/tls/tls.crt",
    "config.admin_tls_key_file=/etc/tls/tls.key",
)


def of_kind(kind: str, *settings: str) -> list[Any]:
    """The manifests of this kind that the chart renders."""
    return [each for each in check.rendered(*settings) if each["kind"] == kind]


def pods(*settings: str) -> Any:
    """The spec of native sidecars' pods."""
    (found,) = of_kind("StatefulSet", "enforcement=native", *settings)
    return found["spec"]["template"]["spec"]


def test_where_pods_have_no_ipv4_sidecars_and_brokers_meet_on_ipv6() -> None:
    """Listeners are open to IPv6, and a gate connects to the address that its broker binds."""
    check.without_ipv4()


def test_any_key_of_the_configuration_can_be_set_and_wins() -> None:
    """Maps, too, with gates and without."""
    check.every_key()


def test_a_key_that_is_null_is_left_out() -> None:
    """The sidecar then takes its own default, whatever the chart's values make of the key."""
    (document,) = of_kind("ConfigMap", "config.bus_topics=null")

    assert "bus_topics" not in document["data"]["sidecar.toml"]


def test_all_that_the_chart_renders_is_accepted_by_kubernetes_and_by_sidecars() -> None:
    """Bare and with everything on, with gates and without."""
    check.chart()


@pytest.mark.parametrize(
    ("settings", "begin"),
    [
        (("pulsar.release=pulsar",), "pulsar"),
        (("pulsar.release=prod",), "prod-pulsar"),
        (("pulsar.release=my-pulsar",), "my-pulsar"),
        (("pulsar.release=prod", "pulsar.fullname=queues"), "queues"),
    ],
)
def test_brokers_and_servers_of_any_release_are_called_as_pulsars_chart_calls_them(
    settings: tuple[str, ...], begin: str
) -> None:
    """It puts its own name behind a release that has not got it."""
    (document,) = of_kind("ConfigMap", *settings)

    args = pods(*settings)["containers"][0]["args"]
    broker = f"{begin}-broker"
    assert f"--set=broker_id={broker}-$(POD_INDEX)" in args
    assert f"--set=broker_web_url=http://{broker}-$(POD_INDEX).{broker}:8080" in args
    assert f'zookeeper_servers = "{begin}-zookeeper:2181"' in document["data"]["sidecar.toml"]


def test_secrets_are_those_of_pulsars_release() -> None:
    """Its chart names them after the release alone."""
    (keys,) = (each for each in pods("pulsar.release=prod")["volumes"] if each["name"] == "keys")

    names = [source["secret"]["name"] for source in keys["projected"]["sources"]]
    assert names == ["prod-token-symmetric-key", "prod-token-broker-admin"]


@pytest.mark.parametrize("path", check.ENFORCED)
def test_the_longest_release_has_no_name_that_is_too_long(path: str) -> None:
    """Helm takes releases of 53 letters."""
    found = check.rendered(f"enforcement={path}", *check.EVERYTHING, release=LONGEST_RELEASE)

    for manifest in found:
        more = REVISION if manifest["kind"] == "StatefulSet" else ""
        assert len(manifest["metadata"]["name"] + more) <= NAME_MAX


def test_the_name_of_each_native_sidecar_leads_to_it_ready_or_not() -> None:
    """Pods have names of their own in a headless service alone, and members tell theirs."""
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind("Service")}
    (found,) = of_kind("StatefulSet")
    service = services[found["spec"]["serviceName"]]

    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    assert service["selector"] == found["spec"]["selector"]["matchLabels"]


def test_a_gate_with_tls_is_reached_as_one_without_is() -> None:
    """By the service, and past the network policy."""
    tls = ("enforcement=gate", "networkPolicy.enabled=true", "config.gate_tls_listen=0.0.0.0:6653")
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind("Service", *tls)}
    (policy,) = of_kind("NetworkPolicy", *tls)

    ports = services["pulsar-quota-gate"]["ports"]
    assert [(each["port"], each["targetPort"]) for each in ports] == [(6650, 6652), (6651, 6653)]
    assert policy["spec"]["ingress"][0] == {"ports": [{"port": 6652}, {"port": 6653}]}


def test_prometheus_asks_by_tls_where_the_admin_api_speaks_it() -> None:
    """With what the values say of its certificate."""
    trust = "monitoring.tlsConfig.serverName=quota.example.org"
    (plain,) = of_kind("PodMonitor", "monitoring.podMonitor=true", trust)
    (secure,) = of_kind("PodMonitor", "monitoring.podMonitor=true", trust, *ADMIN_TLS)

    (endpoint,) = secure["spec"]["podMetricsEndpoints"]
    assert "scheme" not in plain["spec"]["podMetricsEndpoints"][0]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {"serverName": "quota.example.org"}


def test_the_kubelet_is_not_asked_for_a_certificate_that_it_has_not() -> None:
    """A probe that is refused would keep every pod from being ready."""
    asked = "config.admin_tls_client_ca_file=/etc/tls/ca.crt"
    without, with_tls, with_callers = (
        pods(*settings)["containers"][0]["readinessProbe"]
        for settings in ((), ADMIN_TLS, (*ADMIN_TLS, asked))
    )

    assert without["httpGet"]["scheme"] == "HTTP"
    assert with_tls["httpGet"]["scheme"] == "HTTPS"
    assert with_callers == {"tcpSocket": {"port": 8087}, "periodSeconds": 2}


def test_pods_of_native_sidecars_take_files_credentials_and_places() -> None:
    """Keys of the configuration name files and stores, and a cluster has nodes of several kinds."""
    found = pods(
        "native.volumes[0].name=tls",
        "native.volumes[0].secret.secretName=quota-tls",
        "native.volumeMounts[0].name=tls",
        "native.volumeMounts[0].mountPath=/etc/tls",
        "native.env[0].name=AWS_REGION",
        "native.env[0].value=eu-central-1",
        "native.pod.nodeSelector.pool=quota",
        "native.pod.terminationGracePeriodSeconds=60",
    )

    (container,) = found["containers"]
    assert found["volumes"][-1] == {"name": "tls", "secret": {"secretName": "quota-tls"}}
    assert container["volumeMounts"][-1] == {"name": "tls", "mountPath": "/etc/tls"}
    assert container["env"][-1] == {"name": "AWS_REGION", "value": "eu-central-1"}
    assert found["nodeSelector"] == {"pool": "quota"}
    assert found["terminationGracePeriodSeconds"] == 60
    assert found["automountServiceAccountToken"] is False

"""The shipped files fit the code: configurations are accepted, metrics exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from coordinator.adapters.pulsar.client.__main__ import MEMORY_BYTES_MAX
from coordinator.cli import doctor_native
from coordinator.config import from_mapping
from coordinator.core.settings import ConditionThresholds
from coordinator.gate.server.supervisor import UNREAD_BYTES_MAX
from coordinator.insight.model.conditions import TABLE, ConditionKind
from coordinator.native.engine.views import NativeState
from deploy.check import queries, read_dashboard
from tests.admin_api.backlog_world import BacklogWorld
from tests.admin_api.test_reconciliation import Reconciled
from tests.admin_api.world import FixedNative, World
from tests.config.test_config import GOOD

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_METRIC = re.compile(r"\bpulsar_quota_\w+")


def read_yaml(*path: str) -> Any:
    """A YAML file below deploy/."""
    return yaml.safe_load(DEPLOY.joinpath(*path).read_text(encoding="utf-8"))


def unknown_to_grafana(dashboard: Any) -> Iterator[str]:
    """Where a dashboard says what Grafana's own types lose when they read it and write it again."""
    # Of the data source Prometheus alone, so not among the types of all annotations.
    for annotation in dashboard["annotations"]["list"]:
        annotation.pop("titleFormat")
    register_default_plugins()
    written = JSONEncoder().encode(Dashboard.from_json(dashboard))
    return _lost(dashboard, json.loads(written), "")


def _lost(said: Any, written: Any, path: str) -> Iterator[str]:
    if isinstance(said, dict) and isinstance(written, dict):
        for key, value in said.items():
            yield from _lost(value, written.get(key), f"{path}/{key}")
    elif isinstance(said, list) and isinstance(written, list) and len(said) == len(written):
        for number, (mine, theirs) in enumerate(zip(said, written, strict=True)):
            yield from _lost(mine, theirs, f"{path}/{number}")
    elif said != written:
        yield path


def steering_nothing() -> FixedNative:
    """Return native enforcement before the first group."""
    return FixedNative(NativeState("native"))


async def known_metrics() -> set[str]:
    """The names under which a sidecar's samples are stored, by the text that it answers."""
    async with World().client(
        backlogs=BacklogWorld().backlogs(), native=steering_nothing(), reconciling=Reconciled()
    ) as client:
        text = (await client.get("/metrics")).text
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


async def test_every_alert_is_about_metrics_that_exist() -> None:
    """An alert on a name without a metric never fires."""
    rules = [
        rule for group in read_yaml("prometheus", "rules.yaml")["groups"] for rule in group["rules"]
    ]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    used = {name for rule in rules for name in _METRIC.findall(rule["expr"])}

    assert used - {name.split(":")[1] for name in recorded} <= await known_metrics()
    assert all(rule["annotations"]["action"] for rule in rules if "alert" in rule)


def test_no_alert_counts_one_thing_in_the_plural() -> None:
    """A count of 1 reads well, since it stands behind what is counted; units may follow a value."""
    counted = re.compile(r"\{\{ \$value(?: \| humanize)? \}\} (?!bytes/s|s$)\w+")
    summaries = [rule["annotations"]["summary"] for rule in alerts().values()]

    assert [text for text in summaries if counted.search(text)] == []


def test_every_alert_has_a_test() -> None:
    """`promtool test rules` shows of each that it fires."""
    rules = read_yaml("prometheus", "rules.yaml")["groups"]
    tests = read_yaml("prometheus", "rules_test.yaml")["tests"]
    alerts = {rule["alert"] for group in rules for rule in group["rules"] if "alert" in rule}
    fired = {
        case["alertname"]
        for test in tests
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }

    assert fired == alerts


def alerts() -> dict[str, Any]:
    """Every alert's rule, by its name without the prefix."""
    groups = read_yaml("prometheus", "rules.yaml")["groups"]
    rules = (rule for group in groups for rule in group["rules"] if "alert" in rule)
    return {rule["alert"].removeprefix("PulsarQuota"): rule for rule in rules}


@pytest.mark.parametrize("kind", ConditionKind)
def test_every_condition_is_an_alert_of_the_same_name_severity_and_remedy(
    kind: ConditionKind,
) -> None:
    """The alert's action begins with the remedy; it may name a label, or where more is said."""
    rule, row = alerts()[kind.value], TABLE[kind]
    action = re.sub(r" \{\{.*?\}\}", "", rule["annotations"]["action"])

    assert rule["labels"]["severity"] == row.severity.value
    assert action.startswith(row.remedy)


def test_alerts_and_conditions_have_the_same_thresholds() -> None:
    """Each sidecar has the same."""
    near = ConditionThresholds().near_limit_permille / 1000
    high = ConditionThresholds().certificate_permille / 1000

    for kind in (ConditionKind.GROUP_NEAR_LIMIT, ConditionKind.BACKLOG_NEAR_QUOTA):
        assert f"> {near}" in alerts()[kind.value]["expr"]
    assert f"> {high}" in alerts()[ConditionKind.CERTIFICATE_HIGH.value]["expr"]


async def test_every_panel_shows_metrics_that_exist() -> None:
    """A panel on a name without a metric stays empty."""
    dashboard = read_dashboard()
    asked = queries(dashboard).values()

    assert {name for query in asked for name in _METRIC.findall(query)} <= await known_metrics()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_dashboard_has_messages_and_bytes_in_their_units() -> None:
    """Grafana writes mps as msg/s, and Bps as B/s."""
    found = {
        panel["fieldConfig"]["defaults"]["unit"]
        for panel in read_dashboard()["panels"]
        for target in panel.get("targets", ())
        if "messages_per_second" in target["expr"] or "messages_total" in target["expr"]
    }

    assert found == {"mps"}


def test_grafana_knows_every_word_of_the_dashboard() -> None:
    """A key that it does not know is an option that does nothing."""
    assert list(unknown_to_grafana(read_dashboard())) == []


@pytest.mark.parametrize("where", ["/panels/1", "/panels/1/options", "/panels/1/fieldConfig"])
def test_a_misspelt_word_of_the_dashboard_is_found(where: str) -> None:
    """In a panel, in what is special to its kind, and in what all kinds have."""
    dashboard = read_dashboard()
    part = dashboard
    for step in where.split("/")[1:]:
        part = part[int(step) if step.isdigit() else step]
    part["misspelt"] = 1

    assert list(unknown_to_grafana(dashboard)) == [f"{where}/misspelt"]


def read_compose(name: str) -> Any:
    """A compose file with what it includes, and each service with what it extends."""
    found = read_yaml("compose", name)
    for included in found.pop("include", ()):
        for key, members in read_yaml("compose", included).items():
            found[key] = members | found.get(key, {})
    for service in found["services"].values():
        _extend(service)
    return found


def _extend(service: dict[str, Any]) -> None:
    extended = service.pop("extends", None)
    if extended is None:
        return
    place = {"file": "common.yaml", "service": extended} if isinstance(extended, str) else extended
    base = read_yaml("compose", place["file"])["services"][place["service"]]
    _extend(base)
    for key, value in base.items():
        own = service.get(key)
        if own is None:
            service[key] = value
        elif isinstance(value, list) and key != "command":
            service[key] = value + own
        elif isinstance(value, dict):
            service[key] = value | own


COMPOSE = {"compose.yaml": "sidecar.toml", "gates.yaml": "sidecar-with-gate.toml"}
"""Each compose file, and its sidecars' configuration."""


@pytest.mark.parametrize(("file", "enforced"), [("compose.yaml", "native"), ("gates.yaml", "gate")])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_sidecar_of_compose_has_a_configuration_for_its_broker(
    file: str, enforced: str, number: int
) -> None:
    """As it reads it, with what it is told when it starts; the broker may be asked there."""
    sidecar = read_compose(file)["services"][f"sidecar-{number}"]
    mounted = f"./{COMPOSE[file]}:/etc/pulsar-quota/sidecar.toml:ro"
    told = dict(each.split("=", 1) for each in sidecar["command"] if "=" in each)
    text = (DEPLOY / "compose" / COMPOSE[file]).read_text(encoding="utf-8")

    found = from_mapping(tomllib.loads(text) | told)
    assert mounted in sidecar["volumes"]
    assert found.super_user_roles == ("admin",)
    assert found.broker_id == f"broker-{number}"
    assert found.enforcement_path == enforced
    host = f"broker-{number}" if enforced == "native" else "127.0.0.1"
    assert found.broker_web_url == f"http://{host}:8080"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_gate_of_compose_stands_beside_its_broker(number: int) -> None:
    """Both use a network that outlives either, and have the broker's name and the sidecar's there."""
    services = read_compose("gates.yaml")["services"]
    sidecar, broker = services[f"sidecar-{number}"], services[f"broker-{number}"]
    pod = services[f"pod-{number}"]

    assert sidecar["network_mode"] == broker["network_mode"] == f"service:pod-{number}"
    assert pod["hostname"] == f"broker-{number}"
    assert pod["networks"]["default"]["aliases"] == [f"broker-{number}", f"sidecar-{number}"]


def test_a_native_broker_of_compose_reads_entries() -> None:
    """It has the two lines that `doctor --native` asks for, and the name that its sidecar is told."""
    services = read_compose("compose.yaml")["services"]
    for number in (1, 2, 3):
        broker = services[f"broker-{number}"]
        lines = broker["environment"]
        assert broker["hostname"] == lines["advertisedAddress"] == f"broker-{number}"
        for line in doctor_native.LINES:
            key, _, value = line.partition("=")
            assert lines[f"PULSAR_PREFIX_{key}"] == value


@pytest.mark.parametrize("file", COMPOSE)
def test_a_sidecar_of_compose_has_the_time_to_drain_and_no_rights(file: str) -> None:
    """Docker kills what has not ended in time, 10 s unless told."""
    document = tomllib.loads((DEPLOY / "compose" / COMPOSE[file]).read_text(encoding="utf-8"))
    sidecar = read_compose(file)["services"]["sidecar-1"]

    grace = sidecar["stop_grace_period"]
    assert grace.endswith("s")
    assert float(grace[:-1]) > from_mapping(document).drain_timeout_seconds
    assert sidecar["read_only"] is True
    assert sidecar["cap_drop"] == ["ALL"]


@pytest.mark.parametrize("file", COMPOSE)
def test_compose_names_nothing_that_is_not_there(file: str) -> None:
    """Every file that is mounted exists, every volume is declared, every image has a version."""
    compose = read_compose(file)
    for service in compose["services"].values():
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            if source.startswith("."):
                assert (DEPLOY / "compose" / source).exists(), source
            else:
                assert source in compose["volumes"]
        assert ":" in service["image"] or "build" in service
        assert set(service.get("depends_on", ())) <= set(compose["services"])


@pytest.mark.parametrize("configuration", COMPOSE.values())
def test_compose_and_prometheus_agree_on_the_ports(configuration: str) -> None:
    """Prometheus asks each sidecar for the admin port, with a token."""
    (job,) = read_yaml("compose", "prometheus.yml")["scrape_configs"]
    document = tomllib.loads((DEPLOY / "compose" / configuration).read_text(encoding="utf-8"))
    port = document["admin_listen"].rpartition(":")[2]

    assert job["static_configs"][0]["targets"] == [f"sidecar-{n}:{port}" for n in (1, 2, 3)]


def test_the_image_is_made_of_files_that_exist_and_runs_as_nobody() -> None:
    """Every copied file exists and is not ignored, and the user is not root."""
    dockerfile = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists()
            assert f"!{source}\n" in let_in
    assert re.search(r"^USER (?!0\b|root)\S+$", dockerfile, re.MULTILINE)


def test_image_and_chart_ask_the_admin_api_whether_a_sidecar_lives() -> None:
    """The gate is left alone: it would open a connection to its broker for each who asks."""
    dockerfile = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
    script = (DEPLOY / "docker" / "pulsar-quota-alive").read_text(encoding="utf-8")
    example = tomllib.loads((DEPLOY / "compose" / "sidecar.toml").read_text(encoding="utf-8"))
    (sidecar,) = read_yaml("helm", "pulsar-values.yaml")["broker"]["initContainers"]
    admin = read_yaml("helm", "pulsar-quota", "values.yaml")["ports"]["admin"]

    assert re.search(r'^HEALTHCHECK .*CMD \["pulsar-quota-alive"\]$', dockerfile, re.MULTILINE)
    assert f"port=${{1:-{example['admin_listen'].rpartition(':')[2]}}}" in script
    assert sidecar["livenessProbe"]["exec"]["command"] == ["pulsar-quota-alive", str(admin)]


def test_the_chart_ships_the_rules_and_the_dashboard_as_they_are() -> None:
    """They are links: what Prometheus and Grafana get is what was tested."""
    files = DEPLOY / "helm" / "pulsar-quota" / "files"

    assert (files / "rules.yaml").resolve() == DEPLOY / "prometheus" / "rules.yaml"
    assert (files / "pulsar-quota.json").resolve() == DEPLOY / "grafana" / "pulsar-quota.json"


def test_the_chart_has_the_version_of_the_release_and_asks_for_its_image() -> None:
    """They are set by hand, in four files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = read_yaml("helm", "pulsar-quota", "Chart.yaml")
    values = read_yaml("helm", "pulsar-quota", "values.yaml")
    (sidecar,) = read_yaml("helm", "pulsar-values.yaml")["broker"]["initContainers"]

    assert chart["version"] == chart["appVersion"] == project["version"]
    assert values["native"]["image"] == sidecar["image"] == f"pulsar-quota:{project['version']}"


def test_the_chart_and_the_brokers_values_agree() -> None:
    """Ports and names stand in two files, since two charts read them."""
    ports = read_yaml("helm", "pulsar-quota", "values.yaml")["ports"]
    broker = read_yaml("helm", "pulsar-values.yaml")["broker"]
    (sidecar,) = broker["initContainers"]

    assert f":{ports['gate']}" in broker["additionalCommand"]
    assert broker["configData"]["PULSAR_PREFIX_bindAddresses"].endswith(f":{ports['upstream']}")
    assert {port["containerPort"] for port in sidecar["ports"]} == {ports["gate"], ports["admin"]}
    monitoring = DEPLOY / "helm" / "pulsar-quota" / "templates" / "monitoring.yaml"
    assert f"- port: {sidecar['ports'][-1]['name']}\n" in monitoring.read_text(encoding="utf-8")
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_sidecar_in_a_brokers_pod_may_take_what_its_bounds_allow() -> None:
    """A system that ends it for its memory cuts off all of its clients."""
    (sidecar,) = read_yaml("helm", "pulsar-values.yaml")["broker"]["initContainers"]
    limit = sidecar["resources"]["limits"]["memory"]
    buffered = from_mapping(GOOD).publish_buffer_bytes_max

    # Publishes, large ones that are not complete, deliveries; what clients do not read; the processes.
    held = buffered + buffered // 2 + buffered // 4 + UNREAD_BYTES_MAX
    most = held + 130_000_000 + MEMORY_BYTES_MAX
    assert limit.endswith("Gi")
    assert int(limit.removesuffix("Gi")) * 2**30 > most


def test_pods_take_any_user_and_a_configuration_that_has_changed() -> None:
    """OpenShift gives each namespace its own; a file that is mounted by itself never changes."""
    (sidecar,) = read_yaml("helm", "pulsar-values.yaml")["broker"]["initContainers"]
    template = DEPLOY / "helm" / "pulsar-quota" / "templates" / "sidecars.yaml"
    pods = template.read_text(encoding="utf-8")

    assert "runAsUser" not in sidecar["securityContext"]
    assert "runAsUser" not in pods
    assert not any("subPath" in mount for mount in sidecar["volumeMounts"])
    assert "subPath" not in pods
    assert 'pulsar-quota/config: {{ include "pulsar-quota.configuration" . | sha256sum }}' in pods


def test_the_values_for_brokers_without_gates_let_them_read_entries() -> None:
    """The lines that ``doctor --native`` asks for."""
    settings = read_yaml("helm", "pulsar-native-values.yaml")["broker"]["configData"]

    assert [f"{key.removeprefix('PULSAR_PREFIX_')}={value}" for key, value in settings.items()] == [
        *doctor_native.LINES
    ]


@pytest.mark.parametrize("key", ["SECRETKEY", "broker.token"])
def test_the_chart_names_files_that_the_brokers_values_mount(key: str) -> None:
    """A configured file that is not mounted ends the sidecar at its start."""
    broker = read_yaml("helm", "pulsar-values.yaml")["broker"]
    (sidecar,) = broker["initContainers"]
    (keys,) = (volume for volume in broker["extraVolumes"] if "projected" in volume)
    (mount,) = (m for m in sidecar["volumeMounts"] if m["name"] == keys["name"])
    template = DEPLOY / "helm" / "pulsar-quota" / "templates" / "_helpers.tpl"
    values = read_yaml("helm", "pulsar-quota", "values.yaml")["auth"]
    named = template.read_text(encoding="utf-8").replace(
        '%s" $keys .Values.auth.secretKey', f'{values["secretKey"]}" $keys'
    )

    assert f'$keys := "{mount["mountPath"]}"' in named
    assert f'(printf "%s/{key}" $keys)' in named
    mounted = {i["path"] for s in keys["projected"]["sources"] for i in s["secret"]["items"]}
    assert key in mounted


@pytest.mark.parametrize(
    ("chart", "gates"),
    [
        ({"brokerServiceURL": "pulsar://p-broker:6650"}, ("pulsar://p-broker:6652", "")),
        ({"brokerServiceURLTLS": "pulsar+ssl://p-broker:6651"}, ("", "pulsar+ssl://p-broker:6653")),
    ],
)
def test_the_charts_proxy_is_led_to_gates(chart: dict[str, str], gates: tuple[str, str]) -> None:
    """By a shell, as the chart runs the command: the same service, at the gates' port."""
    proxy = read_yaml("helm", "pulsar-proxy-values.yaml")["proxy"]
    shown = subprocess.run(
        ["sh", "-c", proxy["additionalCommand"] + ' printenv brokerServiceURL brokerServiceURLTLS'],
        env=chart | {"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert tuple(shown.stdout.split("\n")[:2]) == gates
    broker = read_yaml("helm", "pulsar-values.yaml")["broker"]
    assert ":6652" in broker["additionalCommand"]
    ports = proxy["configData"]["PULSAR_PREFIX_brokerProxyAllowedTargetPorts"].split(",")
    assert {url.rpartition(":")[2] for url in gates if url} <= set(ports)

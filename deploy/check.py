"""``make check-deploy``: what is shipped, held against the tools that read it.

Rules, their tests and the dashboard's queries by promtool, the chart by helm and the schemas of
Kubernetes, the unit by systemd. No container runtime is needed. Ends with 1 at the first that is refused,
with 2 when a tool is missing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

import kubernetes_validate
import yaml

from coordinator.config import ConfigError, from_mapping
from coordinator.config.reference import example
from deploy.local import requirements

DEPLOY = Path(__file__).parent
KUBERNETES = "1.31"
"""The version whose schemas the manifests must keep; the chart asks for 1.29."""

EVERYTHING: Final = (
    "networkPolicy.enabled=true",
    "networkPolicy.brokerFrom[0].podSelector.matchLabels.component=toolset",
    "monitoring.podMonitor=true",
    "monitoring.rules=true",
    "monitoring.dashboard=true",
    "config.record_dir=s3://bucket/recorded",
    "config.report_interval_seconds=2",
    "config.tenant_admins.shop[0]=alice",
    "auth.brokers=true",
)
"""Settings that turn on everything that the chart has for both ways to enforce."""
ENFORCED: Final = ("native", "gate")
"""The ways to enforce that the chart knows."""
_OF_AN_OPERATOR = "monitoring.coreos.com/"
"""Kinds that Kubernetes itself does not know, so it has no schema of them."""


class ToolRefused(Exception):
    """A tool did not accept what is shipped; the message is the tool's."""


def rules() -> None:
    """The alerts are valid, and each fires when it should."""
    _run("promtool", "check", "rules", "rules.yaml", folder="prometheus")
    _run("promtool", "test", "rules", "rules_test.yaml", folder="prometheus")


def read_dashboard() -> Any:
    """Grafana's dashboard."""
    return json.loads((DEPLOY / "grafana" / "pulsar-quota.json").read_text(encoding="utf-8"))


def queries(shown: Any) -> dict[str, str]:
    """The queries of a dashboard to Prometheus, by their place in it."""
    return {
        f"panel_{panel['id']}_{target['refId']}": target["expr"]
        for panel in shown["panels"]
        for target in panel.get("targets", ())
    } | {
        f"annotation_{number}": annotation["expr"]
        for number, annotation in enumerate(shown["annotations"]["list"], start=1)
    }


def dashboard() -> None:
    """Every query of the dashboard is one that Prometheus can answer."""
    shown = read_dashboard()
    chosen = {variable["name"]: "any" for variable in shown["templating"]["list"]}
    records = [
        {"record": where, "expr": _as_asked(query, chosen)}
        for where, query in queries(shown).items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queries.yaml"
        path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
        _run("promtool", "check", "rules", str(path))


def chart() -> None:
    """The chart renders, bare and with everything on, to what Kubernetes and the sidecar accept."""
    _run("helm", "lint", "--strict", "pulsar-quota", folder="helm")
    for path in ENFORCED:
        for settings in ((), EVERYTHING):
            manifests = rendered(f"enforcement={path}", *settings)
            for manifest in manifests:
                if not manifest["apiVersion"].startswith(_OF_AN_OPERATOR):
                    _validate(manifest)
            _configures(_of_sidecars(manifests), _told_at_start(manifests))


def without_ipv4() -> None:
    """Where pods have no IPv4, sidecars listen to IPv6 and find on ::1 what their brokers bind there."""
    values = yaml.safe_load((DEPLOY / "helm" / "pulsar-ipv6-values.yaml").read_text("utf-8"))
    bound = values["broker"]["configData"]["PULSAR_PREFIX_bindAddresses"]
    wanted = {"native": {"admin_listen": "[::]:8087"}}
    wanted["gate"] = wanted["native"] | {
        "gate_listen": "[::]:6652",
        "gate_upstream": bound.removeprefix("external:pulsar://"),
        "broker_web_url": "http://[::1]:8080",
        "bus_service_url": "pulsar://localhost:6650",
    }
    for path in ENFORCED:
        for loopback in ("::1", "[::1]"):
            manifests = rendered(f"enforcement={path}", f"loopback={loopback}")
            document = _of_sidecars(manifests)
            _configures(document, _told_at_start(manifests))
            _is_as_wanted(tomllib.loads(document), wanted[path])


def every_key() -> None:
    """Every key of the configuration can be set in the chart's values, maps too, and wins."""
    written = re.sub(r"^#(?=\w+ = )", "", example(), flags=re.MULTILINE)
    wanted = tomllib.loads(written) | {"tenant_admins": {"a": ["b", "c"], "d": []}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "values.yaml"
        file.write_text(json.dumps({"config": wanted}), encoding="utf-8")
        for path in ENFORCED:
            document = _of_sidecars(rendered(f"enforcement={path}", values=file))
            _is_as_wanted(tomllib.loads(document), wanted)


def sidecar_container() -> None:
    """The container that brokers get is one that Kubernetes accepts."""
    values = yaml.safe_load((DEPLOY / "helm" / "pulsar-values.yaml").read_text(encoding="utf-8"))
    broker = values["broker"]
    pod = {"containers": [{"name": "broker"}], "initContainers": broker["initContainers"]}
    _validate(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "broker"},
            "spec": pod | {"volumes": broker["extraVolumes"]},
        }
    )


def unit() -> None:
    """Systemd understands every line of the units."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for source in sorted((DEPLOY / "systemd").iterdir()):
            # The command need not be installed here.
            text = source.read_text(encoding="utf-8")
            paths.append(Path(folder) / source.name)
            paths[-1].write_text(text.replace("/opt/pulsar-quota/bin/pulsar-quota", "/bin/true"))
        _run("systemd-analyze", "verify", "--man=no", *map(str, paths))


CHECKS: tuple[Callable[[], None], ...] = (
    rules,
    dashboard,
    chart,
    without_ipv4,
    every_key,
    sidecar_container,
    unit,
)


def main() -> int:
    """Run every check."""
    if lacking := requirements.missing([requirements.CHECK_DEPLOY], os.environ):
        print(f"missing: {', '.join(program.name for program in lacking)}", file=sys.stderr)
        return 2
    if shutil.which("helm") is None:  # PyPI has it for Linux on x86-64 alone
        print("missing: helm. Put one of helm.sh on PATH", file=sys.stderr)
        return 2
    for check in CHECKS:
        try:
            check()
        except ToolRefused as error:
            print(f"{check.__name__}: {error}", file=sys.stderr)
            return 1
        print(f"{check.__name__}: {(check.__doc__ or '').strip()}")
    return 0


def rendered(
    *settings: str, values: Path | None = None, release: str = "pulsar-quota"
) -> list[Any]:
    """The manifests of the chart, as this release."""
    options = [part for setting in settings for part in ("--set", setting)]
    options += [] if values is None else ["--values", str(values)]
    version = f"{KUBERNETES}.0"
    text = _run(
        "helm", "template", release, "pulsar-quota", "--kube-version", version, *options,
        folder="helm",
    )  # fmt: skip
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def _of_sidecars(manifests: Sequence[Any]) -> str:
    """The configuration of the sidecars."""
    (document,) = (
        manifest["data"]["sidecar.toml"]
        for manifest in manifests
        if "sidecar.toml" in manifest.get("data", ())
    )
    return str(document)


def _told_at_start(manifests: Sequence[Any]) -> dict[str, str]:
    """The keys that the first pod of the chart's own is told; those of brokers' pods are elsewhere."""
    arguments = [
        argument.replace("$(POD_INDEX)", "0").partition("--set=")[2].partition("=")
        for manifest in manifests
        if manifest["kind"] == "StatefulSet"
        for argument in manifest["spec"]["template"]["spec"]["containers"][0]["args"]
    ]
    return {key: value for key, _, value in arguments if key}


def _is_as_wanted(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    wrong = [key for key, value in wanted.items() if found.get(key) != value]
    if wrong:
        told = ", ".join(f"{key} = {found.get(key)!r}, not {wanted[key]!r}" for key in wrong)
        raise ToolRefused(f"sidecar.toml of the chart: {told}")


def _run(*command: str, folder: str = "") -> str:
    done = subprocess.run(command, cwd=DEPLOY / folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolRefused(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _as_asked(query: str, chosen: Mapping[str, str]) -> str:
    """A query with Grafana's variables filled in."""
    try:
        return Template(query).substitute(chosen, __rate_interval="1m")
    except KeyError as error:
        raise ToolRefused(f"{query}: the dashboard has no variable {error}") from error


def _configures(document: str, told: Mapping[str, str]) -> None:
    try:
        from_mapping({**tomllib.loads(document), **told})
    except (tomllib.TOMLDecodeError, ConfigError) as error:
        raise ToolRefused(f"sidecar.toml of the chart: {error}\n{document}") from error


def _validate(manifest: Any) -> None:
    try:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        where = f"{manifest['kind']} {manifest['metadata']['name']}"
        raise ToolRefused(f"{where}: {error.message} at {list(error.path)}") from error


if __name__ == "__main__":
    sys.exit(main())

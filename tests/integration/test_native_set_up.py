"""A fault in the set-up of native enforcement is a condition, and a line of the doctor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.cli.doctor_native import LINES
from deploy.local.cluster import Cluster
from deploy.local.sidecars import PROGRAM, Sidecars
from deploy.local.topics import Topics, path_of
from tests.admin_api.keys import SECRET, token
from tests.integration import skewed_sidecar
from tests.integration.native_world import LIMIT, RECORD, Native, opened
from tests.integration.world import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

_PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


def told(native: Native, code: str) -> str:
    """The text of a condition, once the sidecar tells it, and the doctor with it."""
    eventually(lambda: code in native.conditions(), f"{code} is told")
    # A figure in the text may change between the two.
    eventually(lambda: native.conditions()[code] in doctor(native), f"the doctor tells {code}")
    return native.conditions()[code]


def doctor(native: Native) -> str:
    """Return the doctor's output, on one line."""
    command = [sys.executable, *PROGRAM, "--json", "--api", native.sidecars.admin_url("broker-1")]
    done = subprocess.run([*command, "doctor"], capture_output=True, text=True, check=False)
    return done.stdout.replace("\\", "")


def test_a_long_interval_is_told_and_the_record_is_higher(tmp_path: Path) -> None:
    """Sixty sixty-firsts of what the headroom allows; a limit takes a minute."""
    with opened(tmp_path, brokers=1, resource_group_interval_s=60) as native:
        assert "60 s" in told(native, "interval")
        eventually(lambda: native.record() == 2 * RECORD * 60 // 61, "the record is there")


def test_brokers_without_the_transport_are_told(tmp_path: Path) -> None:
    """They let the whole record pass, each; it is never above its part of the limit."""
    with opened(tmp_path, brokers=1, own_resource_groups=False) as native:
        told(native, "transport")
        assert native.record() <= LIMIT
        command = [sys.executable, *PROGRAM, "doctor", "--native", native.cluster.web_url()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert set(LINES) <= {line.strip() for line in done.stdout.splitlines()}


def test_clocks_that_are_apart_are_told(tmp_path: Path) -> None:
    """Brokers drop what seems older than two intervals."""
    program = (str(Path(skewed_sidecar.__file__)),)
    with (
        opened(tmp_path, program=program, brokers=1) as native,
        native.load({"broker-1": 5_000}),
    ):
        assert "apart" in told(native, "clock")


def test_a_role_that_may_not_write_entries_is_told(tmp_path: Path) -> None:
    """Though it may use the topics of the bus."""
    secret, weak = tmp_path / "secret", tmp_path / "weak.token"
    secret.write_bytes(SECRET)
    weak.write_text(token("weak"))
    brokers = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": _PROVIDER,
        "anonymousUserRole": "anonymous",
        "superUserRoles": "admin,anonymous",
        "tokenSecretKey": f"file://{secret}",
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{token('admin')}",
    }

    def allow_bus(cluster: Cluster, sidecars: Sidecars) -> None:
        for topic in sidecars.bus_topics:
            path = f"/admin/v2/{path_of(topic)}/permissions/weak"
            Topics(cluster.brokers).ask("POST", path, ["produce", "consume"])

    settings = {"bus_token_file": str(weak)}
    with opened(tmp_path, settings, before=allow_bus, brokers=1, broker_settings=brokers) as native:
        assert "Authorization" in told(native, "topic")

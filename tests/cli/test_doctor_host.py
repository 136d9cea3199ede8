"""``doctor --config``: addresses, ports, files and credentials, from the machine of the sidecar."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from coordinator.adapters.zookeeper.access import ZooKeeperAccess, refusal
from coordinator.cli import doctor_host
from coordinator.cli.doctor_host import examine_host
from coordinator.cli.findings import Finding, Level
from coordinator.cli.probes import Probes
from coordinator.config import Config
from deploy.local import requirements
from deploy.local.ports import free_block


@pytest.fixture
def free_address() -> str:
    """An address on which nothing listens."""
    return f"127.0.0.1:{free_block()[0]}"


@pytest.fixture
def taken_address() -> Iterator[str]:
    """An address that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


class WellProbes(Probes):
    """Ports are really tried; the broker answers with a status, and ZooKeeper has a fault or none."""

    def __init__(self, status: int = 200, zookeeper: str | None = None) -> None:
        super().__init__()
        self._status = status
        self._zookeeper = zookeeper

    def descriptors(self) -> int:
        """Enough."""
        return 1_000_000

    def zookeeper_session(
        self,
        servers: str,  # noqa: ARG002 - as the real one
        root: str,  # noqa: ARG002
        access: ZooKeeperAccess,  # noqa: ARG002
    ) -> str | None:
        """Return the test's state of the session."""
        return self._zookeeper

    def get_status(self, url: str) -> int | str:  # noqa: ARG002 - as the real one
        """Return the test's status."""
        return self._status


def config_of(taken: str, free: str) -> Config:
    """A configuration whose gate may listen, and whose every other address accepts connections."""
    return Config(
        broker_id="broker-1",
        gate_listen=free,
        gate_upstream=taken,
        admin_listen=free,
        broker_web_url=f"http://{taken}",
        bus_service_url=f"pulsar://{taken}",
        zookeeper_servers=taken,
    )


def levels(findings: list[Finding]) -> dict[str, Level]:
    """The worst level per subject."""
    order = list(Level)
    worst: dict[str, Level] = {}
    for finding in findings:
        previous = worst.get(finding.subject, Level.OK)
        worst[finding.subject] = max(previous, finding.level, key=order.index)
    return worst


def test_host_where_all_is_well(taken_address: str, free_address: str) -> None:
    """Everything that the configuration names can be reached, and the own ports are free."""
    findings = list(examine_host(config_of(taken_address, free_address), None, WellProbes()))

    assert {finding.level for finding in findings} == {Level.OK}


def test_a_sidecar_without_a_gate_needs_no_way_to_the_broker_for_one(taken_address: str) -> None:
    """Neither its address nor its files are looked at."""
    config = replace(
        config_of(taken_address, taken_address),
        enforcement_path="native",
        gate_listen="",
        gate_upstream="",
    )

    found = {each.subject for each in examine_host(config, "broker-1", WellProbes())}

    assert found == {"Python", "configuration", "ZooKeeper", "bus", "broker", "admin_listen"}


def test_host_where_nothing_answers(taken_address: str, free_address: str) -> None:
    """The doctor names every dead address with its fix, and the taken port."""
    dead = config_of(taken=free_address, free=taken_address)

    findings = list(examine_host(dead, None, Probes(timeout_s=0.1)))

    wrong = [finding for finding in findings if finding.level is Level.WRONG]
    assert {finding.subject for finding in wrong} == {
        "ZooKeeper",
        "bus",
        "broker",
        "gate upstream",
        "gate_listen",
        "admin_listen",
    }
    assert all(finding.fix for finding in wrong)


@pytest.mark.parametrize(
    ("status", "level"),
    [(200, Level.OK), (401, Level.NOTE), (403, Level.NOTE), (503, Level.WRONG)],
)
def test_broker_that_answers_otherwise(
    taken_address: str, free_address: str, status: int, level: Level
) -> None:
    """Asking for credentials is no fault of the broker."""
    config = config_of(taken_address, free_address)

    assert levels(list(examine_host(config, None, WellProbes(status))))["broker"] is level


def test_running_sidecar_holds_its_ports(taken_address: str, free_address: str) -> None:
    """The ports are taken by whom they are meant for; another's would be wrong."""
    config = config_of(taken_address, taken_address)
    other = config_of(taken_address, free_address)

    ours = levels(list(examine_host(config, "broker-1", WellProbes())))
    theirs = levels(list(examine_host(config, "broker-2", WellProbes())))
    elsewhere = levels(list(examine_host(other, "broker-1", WellProbes())))

    assert (ours["gate_listen"], ours["admin_listen"]) == (Level.OK, Level.OK)
    assert (theirs["gate_listen"], theirs["admin_listen"]) == (Level.WRONG, Level.WRONG)
    assert elsewhere["gate_listen"] is Level.WRONG


def test_a_taken_port_is_told_with_its_key(taken_address: str, free_address: str) -> None:
    """The fix says how to see what listens there, and that systemd may keep it for the sidecar."""
    config = replace(config_of(taken_address, free_address), gate_listen=taken_address)

    found = {each.subject: each for each in examine_host(config, None, WellProbes())}

    assert found["gate_listen"].level is Level.WRONG
    assert found["gate_listen"].text == f"{taken_address}: address already in use"
    assert "sudo ss -ltnp" in found["gate_listen"].fix
    assert "pulsar-quota.socket" in found["gate_listen"].fix
    assert found["gate_listen"].fix.endswith("or change gate_listen.")


@pytest.mark.parametrize(("allowed", "level"), [(20_256, Level.OK), (20_255, Level.NOTE)])
def test_too_few_file_descriptors_are_told(
    taken_address: str, free_address: str, allowed: int, level: Level
) -> None:
    """Two for each of 10,000 connections and some beside; a note, since a sidecar may have others."""

    class Bounded(WellProbes):
        def descriptors(self) -> int:
            return allowed

    found = {
        each.subject: each
        for each in examine_host(config_of(taken_address, free_address), None, Bounded())
    }

    assert found["file descriptors"].level is level
    assert ("LimitNOFILE" in found["file descriptors"].fix) is (level is Level.NOTE)


def test_files_that_cannot_be_read_are_named(
    taken_address: str, free_address: str, tmp_path: Path
) -> None:
    """The doctor names their keys; without files it says nothing of them."""
    (tmp_path / "key").write_text("a secret of the bus")
    config = config_of(taken_address, free_address)
    missing = replace(
        config,
        auth_secret_key_file=str(tmp_path / "gone"),
        bus_token_file=str(tmp_path / "none"),
    )
    readable = replace(config, bus_token_file=str(tmp_path / "key"))

    found = [each for each in examine_host(missing, None, WellProbes()) if each.subject == "file"]
    assert [each.text.split()[0] for each in found] == ["auth_secret_key_file", "bus_token_file"]
    assert all("no such file" in each.text and each.fix for each in found)
    assert levels(list(examine_host(readable, None, WellProbes())))["files"] is Level.OK
    assert "files" not in levels(list(examine_host(config, None, WellProbes())))


def test_bus_url_of_several_brokers(taken_address: str, free_address: str) -> None:
    """One that answers is enough, as it is for the client."""
    config = config_of(taken_address, free_address)
    several = replace(config, bus_service_url=f"pulsar://{free_address},{taken_address}")

    assert levels(list(examine_host(several, None, WellProbes())))["bus"] is Level.OK


def test_answer_of_a_web_server(taken_address: str) -> None:
    """A port that is open and silent is not an answer."""
    assert "no whole answer" in str(Probes(timeout_s=0.1).get_status(f"http://{taken_address}"))


def test_what_zookeeper_refuses_comes_with_the_key_to_correct(
    tmp_path: Path, taken_address: str, free_address: str
) -> None:
    """A server that is not trusted, credentials that are refused, a file that is none."""
    config, probes = (
        config_of(taken_address, free_address),
        WellProbes(zookeeper=refusal(NoAuthError())),
    )
    found = [each for each in examine_host(config, None, probes) if each.level is Level.WRONG]
    assert [each.subject for each in found] == ["ZooKeeper"]
    assert found[0].fix.startswith("Correct zookeeper_credentials_file")

    (tmp_path / "ca.pem").write_text("no certificate")
    unusable = replace(config, zookeeper_tls=True, zookeeper_tls_ca_file=str(tmp_path / "ca.pem"))
    found = [each for each in examine_host(unusable, None, probes) if each.level is Level.WRONG]
    assert [each.subject for each in found] == ["ZooKeeper"]
    assert found[0].text.startswith("zookeeper_tls_*_file")


def test_a_python_that_was_not_tried_is_a_note(
    taken_address: str, free_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known to be wrong with it; the launcher says the same of the same versions."""
    assert requirements.NEWEST_TRIED_PYTHON == doctor_host.NEWEST_TRIED_PYTHON
    monkeypatch.setattr(doctor_host, "NEWEST_TRIED_PYTHON", (3, 10))
    config = config_of(taken_address, free_address)
    found = levels(list(examine_host(config, None, WellProbes())))

    assert found["Python"] is Level.NOTE


def test_a_broker_is_asked_directly_as_the_sidecar_will(
    free_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that the environment names is for other places."""
    monkeypatch.setenv("http_proxy", f"http://{free_address}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        server.timeout = 10.0
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        status = Probes().get_status(f"http://127.0.0.1:{server.server_port}/")
        answering.join()

    assert status == 200

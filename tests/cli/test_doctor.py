"""``doctor``: what is wrong, and how to set it right."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import httpx
import pytest
from kazoo.exceptions import NoAuthError

from admin_api.app import create_app
from coordinator.adapters.zookeeper.access import ZooKeeperAccess, refusal
from coordinator.cli.doctor_host import examine_host
from coordinator.cli.findings import Finding, Level
from coordinator.cli.port_holders import PortHolder, shortened
from coordinator.cli.probes import Probes
from coordinator.config import Config
from coordinator.core.lifecycle import Lifecycle, Trouble
from coordinator.core.usage.agreement import Matter
from coordinator.insight.model.answer import written
from coordinator.insight.model.views import DisagreementView, MemberView, TaskView
from coordinator.reconciliation.engine.reconciliation import ReconciliationState
from tests.admin_api.test_reconciliation import ESCAPE, SENTENCE, STATE, Reconciled
from tests.admin_api.world import HEALTHY, MILLI_NS, World
from tests.cli.conftest import InProcess, Run


@pytest.fixture
def free_address() -> str:
    """An address on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


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


def test_all_is_well(run: Run) -> None:
    """Exit 0 and a line per thing that was looked at."""
    run("groups", "attach", "orders", "--tenant", "public")

    examined = run("doctor")

    assert examined.exit_code == 0
    assert "every one of 1 other member is heard" in examined.stdout
    assert "->" not in examined.stdout


def test_findings_as_json(run: Run) -> None:
    """A machine gets subject, level, text and fix."""
    findings = json.loads(run("doctor", "--json").stdout)

    assert {finding["level"] for finding in findings} <= {"ok", "note"}
    assert {frozenset(finding) for finding in findings} == {
        frozenset({"subject", "level", "text", "fix"})
    }


@pytest.mark.parametrize(
    ("trouble", "subject"),
    [
        (Trouble.ZOOKEEPER_SUSPENDED, "ZooKeeper"),
        (Trouble.ZOOKEEPER_LOST, "ZooKeeper"),
        (Trouble.BUS_SILENT, "bus"),
        (Trouble.BROKER_DOWN, "broker"),
    ],
)
def test_every_trouble_has_a_fix(run: Run, world: World, trouble: Trouble, subject: str) -> None:
    """The sidecar says what is wrong; the doctor says what to do."""
    world.views.turn(state=Lifecycle.DEGRADED, troubles=(trouble,), ready=False)

    examined = run("doctor", "--json")

    findings = {finding["subject"]: finding for finding in json.loads(examined.stdout)}
    assert examined.exit_code == 1
    assert findings["state"]["level"] == findings[subject]["level"] == "wrong"
    assert findings[subject]["text"] == trouble.value
    assert findings[subject]["fix"]


@pytest.mark.parametrize("age_ms", [None, 20_000])
def test_member_that_is_not_heard(run: Run, world: World, age_ms: int | None) -> None:
    """A member whose reports do not arrive is named before the sidecar itself takes it for trouble."""
    age_ns = None if age_ms is None else age_ms * MILLI_NS
    member = MemberView("broker-7", 3, "", age_ns)
    world.views.health_view = replace(HEALTHY, members=(*HEALTHY.members, member))

    examined = run("doctor")

    assert examined.exit_code == 1
    assert "broker-7 was" in examined.stdout


def test_passing_states_are_no_failure(run: Run, world: World) -> None:
    """A sidecar that has just started is not ill."""
    alone = HEALTHY.members[:1]
    world.views.turn(state=Lifecycle.LEARNING, ready=False, members=alone)

    examined = run("doctor")

    assert examined.exit_code == 0
    assert "LEARNING, which passes by itself" in examined.stdout
    assert "no reports are expected" in examined.stdout


def test_unreadable_entries_and_dropped_reports(run: Run, world: World) -> None:
    """A broken entry of the store is a fault; a dropped report is a warning."""
    world.views.shown = replace(world.views.shown, faults={"/groups/x": "not JSON"})
    world.views.turn(reports_dropped={"stale": 4})

    examined = run("doctor", "--json")

    findings = [(f["subject"], f["level"]) for f in json.loads(examined.stdout)]
    assert ("store", "wrong") in findings
    assert ("reports", "note") in findings


@pytest.mark.parametrize(
    ("date", "text"),
    [
        ("Sat, 21 Nov 2020 03:00:00 GMT", "behind this machine's"),
        ("Sat, 21 Nov 2099 03:00:00 GMT", "ahead of this machine's"),
    ],
)
def test_clocks_that_differ(run: Run, date: str, text: str) -> None:
    """A hint only: nothing is decided by wall clocks."""
    health = run("status", "--json").stdout

    def answer(request: httpx.Request) -> httpx.Response:
        empty: dict[str, object] = {
            "faults": {},
            "groups": [],
            "native": {"path": "gate"},
            "reconciliation": written(ReconciliationState().view()),
        }
        body = empty.get(request.url.path.rpartition("/")[2], json.loads(health)["health"])
        return httpx.Response(200, json=body, headers={"date": date})

    examined = run("doctor", carrier=httpx.MockTransport(answer))

    assert examined.exit_code == 0
    assert text in examined.stdout


def reconciled(world: World, **said: Any) -> InProcess:
    """A sidecar that compares its broker's counters with its gate's."""
    state = replace(STATE, **said)
    world.app = create_app(replace(world.backend, reconciling=Reconciled(state)))
    return InProcess(world)


def test_traffic_round_the_gate(run: Run, world: World) -> None:
    """With the most likely way, and what closes it."""
    examined = run("doctor", columns=400, carrier=reconciled(world))
    assert examined.exit_code == 1
    assert f"round the gate {SENTENCE}" in examined.stdout
    assert "-> Give clients and proxies the gates' addresses" in examined.stdout


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"escapes": ()}, "ok    round the gate nothing, of 3 namespaces every 2 s"),
        ({"error": "GET /metrics/ answered 401"}, "not known: GET /metrics/ answered 401"),
        ({"escapes": (), "left_out": 5}, "5 namespaces too many to compare"),
        (
            {"escapes": (replace(ESCAPE, is_escaping=False),)},
            "ok    round the gate nothing, of 3 namespaces every 2 s",
        ),
    ],
)
def test_nothing_round_the_gate(run: Run, world: World, said: dict[str, Any], text: str) -> None:
    """A thing that is over, or not known, is no fault."""
    examined = run("doctor", columns=400, carrier=reconciled(world, **said))
    assert examined.exit_code == 0
    assert text in examined.stdout


def test_no_sidecar(run: Run) -> None:
    """The one finding that matters, with its fix."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    examined = run("doctor", carrier=httpx.MockTransport(refuse))

    assert examined.exit_code == 1
    assert "pulsar-quota sidecar --config FILE" in examined.stdout


@pytest.mark.parametrize("command", ["doctor", "sidecar"])
def test_bad_configuration_is_wrong_use(run: Run, tmp_path: Path, command: str) -> None:
    """The loader's message, and exit code 2."""
    broken = tmp_path / "sidecar.toml"
    broken.write_text('speed = "high"\n')

    for path in (broken, tmp_path / "missing.toml"):
        refused = run(command, "--config", str(path))

        assert refused.exit_code == 2
        assert "speed: unknown key" in refused.stderr or "cannot be read" in refused.stderr


def test_host_where_all_is_well(taken_address: str, free_address: str) -> None:
    """Everything that the configuration names can be reached, and the own ports are free."""
    findings = list(examine_host(config_of(taken_address, free_address), None, WellProbes()))

    assert {finding.level for finding in findings} == {Level.OK}


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


@pytest.fixture
def server_elsewhere() -> Iterator[tuple[int, str]]:
    """Another process that listens: its pid and its address."""
    program = (
        "import socket, sys; server = socket.create_server(('127.0.0.1', 0));"
        "print(server.getsockname()[1], flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, "a-broker-of-ours"]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.pid, f"127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_who_holds_a_port_is_named(
    taken_address: str, free_address: str, server_elsewhere: tuple[int, str], host: str
) -> None:
    """The doctor names pid and command, also where the sidecar listens on all addresses."""
    pid, address = server_elsewhere
    config = config_of(taken_address, free_address)
    listen = f"{host}:{address.rpartition(':')[2]}"
    config = replace(config, gate_listen=listen, admin_listen=address, gate_tls_listen=address)

    found = {each.subject: each for each in examine_host(config, None, WellProbes())}

    for key in ("gate_listen", "gate_tls_listen", "admin_listen"):
        assert found[key].level is Level.WRONG
        assert f"address already in use, by process {pid} of user" in found[key].text
        assert found[key].text.endswith("a-broker-of-ours")
        assert found[key].fix == f"Stop it (kill {pid}) unless it is needed there, or change {key}."


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        (PortHolder("pulsar"), "in use, by a process of user pulsar"),
        (None, "address already in use"),
    ],
)
def test_who_holds_a_port_unseen_is_found_by_root(
    taken_address: str, free_address: str, holder: PortHolder | None, text: str
) -> None:
    """Another user's process is not shown, and without /proc nothing is: then the fix says how to see."""

    class Unseen(WellProbes):
        def holder(self, host: str, port: int) -> PortHolder | None:  # noqa: ARG002 - as the real one
            return holder

    config = replace(config_of(taken_address, free_address), gate_listen=taken_address)

    found = {each.subject: each for each in examine_host(config, None, Unseen())}

    assert found["gate_listen"].text.endswith(text)
    assert "sudo ss -ltnp" in found["gate_listen"].fix


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


def test_a_port_that_systemd_keeps_is_no_fault(taken_address: str, free_address: str) -> None:
    """The port is the sidecar's if the socket unit is; the doctor does not say to kill process 1."""

    class Kept(WellProbes):
        def holder(self, host: str, port: int) -> PortHolder:  # noqa: ARG002 - as the real one
            return PortHolder("root", 1, "/sbin/init")

    config = replace(config_of(taken_address, free_address), gate_listen=taken_address)

    found = {each.subject: each for each in examine_host(config, None, Kept())}

    assert found["gate_listen"].level is Level.NOTE
    assert "/sbin/init" in found["gate_listen"].text
    assert "pulsar-quota.socket" in found["gate_listen"].fix


def test_a_long_command_is_shown_by_its_beginning_and_its_end() -> None:
    """A Java program's name comes after its class path; what a terminal would obey is left out."""
    words = ["/usr/bin/java", "-cp", "/lib/a.jar:" * 500, "\x1b[2J", "Broker", "broker.conf"]

    text = shortened("\0".join(words))

    assert len(text) < 130
    assert text.startswith("/usr/bin/java -cp ")
    assert text.endswith(" Broker broker.conf")
    assert text.isprintable()


def test_files_that_cannot_be_read_are_named(
    taken_address: str, free_address: str, tmp_path: Path
) -> None:
    """The doctor names their keys; without files it says nothing of them."""
    (tmp_path / "key").write_text("a secret of the bus")
    config = config_of(taken_address, free_address)
    missing = replace(
        config,
        auth_secret_key_file=str(tmp_path / "gone"),
        bus_key_files=(str(tmp_path / "key"), str(tmp_path / "none")),
    )
    readable = replace(config, bus_key_files=(str(tmp_path / "key"),))

    found = [each for each in examine_host(missing, None, WellProbes()) if each.subject == "file"]
    assert [each.text.split()[0] for each in found] == ["auth_secret_key_file", "bus_key_files"]
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
    assert "timed out" in str(Probes(timeout_s=0.1).get_status(f"http://{taken_address}"))


@pytest.mark.parametrize(
    ("changes", "subject", "fix"),
    [
        ({"reports_dropped": {"not sealed": 3}}, "reports", "the same bus_key_files"),
        ({"reports_dropped": {"sealed with an unknown key": 1}}, "reports", "as second"),
        ({"reports_dropped": {"the seal does not fit": 1}}, "reports", "restrict it"),
        ({"reports_dropped": {"foreign": 1}}, "reports", "one broker_id"),
        ({"reports_dropped": {"its sender shows no key": 1}}, "reports", "bus_accept_unsigned"),
        ({"failed_tasks": (TaskView("alarms", 2, "why", True),)}, "tasks", "what the log says"),
        (
            {"disagreements": (DisagreementView("broker-2", Matter.DEFINITIONS, 9 * 10**9),)},
            "views",
            "the same zookeeper_servers",
        ),
    ],
)
def test_what_splits_a_cluster_is_wrong_and_has_a_fix(
    run: Run, world: World, changes: dict[str, object], subject: str, fix: str
) -> None:
    """Keys that differ, and sidecars that go by something else."""
    world.views.turn(**changes)

    found = run("doctor", "--json")

    wrong = [each for each in json.loads(found.stdout) if each["level"] == "wrong"]
    assert found.exit_code == 1
    assert [each["subject"] for each in wrong] == [subject]
    assert fix in wrong[0]["fix"]


def test_a_group_that_nothing_is_attached_to_is_noted(run: Run) -> None:
    """It limits nothing, which is seldom meant; attached, there is nothing to say."""
    before = json.loads(run("doctor", "--json").stdout)
    run("groups", "attach", "orders", "--namespace", "public/default")
    after = json.loads(run("doctor", "--json").stdout)

    noted = [each for each in before if each["subject"] == "groups"]
    assert [each["level"] for each in noted] == ["note"]
    assert noted[0]["fix"] == "pulsar-quota groups attach orders --namespace T/N"
    assert [each for each in after if each["subject"] == "groups"] == []


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

"""``doctor``: what is wrong, and how to set it right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from coordinator.core.answer import written
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.usage.agreement import Matter
from coordinator.insight.model.conditions import Condition, ConditionKind, Conditions
from coordinator.insight.model.reconciliation_views import NOT_RECONCILED
from coordinator.insight.model.views import DisagreementView, MemberView, TaskView
from coordinator.reconciliation.engine.reconciliation import uncounted_view
from tests.admin_api.test_reconciliation import SENTENCE, VIEW, Reconciled, quiet
from tests.admin_api.world import HEALTHY, MILLI_NS, World, app_of
from tests.cli.conftest import InProcess, Run


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
    ("degradation", "subject"),
    [
        (Degradation.ZOOKEEPER_SUSPENDED, "ZooKeeper"),
        (Degradation.ZOOKEEPER_LOST, "ZooKeeper"),
        (Degradation.BUS_SILENT, "bus"),
        (Degradation.BROKER_DOWN, "broker"),
    ],
)
def test_every_degradation_has_a_fix(
    run: Run, world: World, degradation: Degradation, subject: str
) -> None:
    """The sidecar says what is wrong; the doctor says what to do."""
    world.views.turn(state=Lifecycle.DEGRADED, degradations=(degradation,), ready=False)

    examined = run("doctor", "--json")

    findings = {finding["subject"]: finding for finding in json.loads(examined.stdout)}
    assert examined.exit_code == 1
    assert findings["state"]["level"] == findings[subject]["level"] == "wrong"
    assert findings[subject]["text"] == degradation.value
    assert findings[subject]["fix"]


@pytest.mark.parametrize(
    ("age_ms", "silent", "told"),
    [
        (None, False, "broker-7 was never heard"),
        (20_000, True, "broker-7 was not heard for 20.00 s"),
        (20_000, False, "every one of 2 other members is heard"),
    ],
)
def test_member_that_is_not_heard(
    run: Run, world: World, age_ms: int | None, silent: bool, told: str
) -> None:
    """It is named before the sidecar itself is degraded; how long is too long, the sidecar knows."""
    age_ns = None if age_ms is None else age_ms * MILLI_NS
    member = MemberView("broker-7", 3, "", age_ns, silent)
    world.views.health_view = replace(HEALTHY, members=(*HEALTHY.members, member))

    examined = run("doctor")

    assert examined.exit_code == (1 if "broker-7" in told else 0)
    assert told in examined.stdout


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
            "conditions": [],
            "reconciliation": written(NOT_RECONCILED),
        }
        body = empty.get(request.url.path.rpartition("/")[2], json.loads(health)["health"])
        return httpx.Response(200, json=body, headers={"date": date})

    examined = run("doctor", carrier=httpx.MockTransport(answer))

    assert examined.exit_code == 0
    assert text in examined.stdout


def reconciled(world: World, **said: Any) -> InProcess:
    """A sidecar that compares its broker's counters with its gate's."""
    view = replace(VIEW, **said)
    world.app = app_of(replace(world.backend, reconciling=Reconciled(view)))
    return InProcess(world)


def test_traffic_round_the_gate(run: Run, world: World) -> None:
    """With what closes the ways round it."""
    examined = run("doctor", columns=400, carrier=reconciled(world))
    assert examined.exit_code == 1
    assert f"round the gate {SENTENCE}" in examined.stdout
    assert "-> Give clients the gates' addresses" in examined.stdout


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"escapes": ()}, "ok    round the gate nothing, of 1 account every 2 s"),
        ({"error": "GET /metrics/ answered 401"}, "not known: GET /metrics/ answered 401"),
        ({"escapes": (), "left_out": 5}, "5 accounts too many to compare"),
        (
            {"escapes": (), "uncounted": (uncounted_view("t/odd"),)},
            "subscriptions of t/odd have names that the broker's metrics cannot hold",
        ),
        (
            {"escapes": quiet().escapes},
            "ok    round the gate nothing, of 1 account every 2 s",
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


@pytest.mark.parametrize(
    ("words", "listens", "asked"),
    [
        ((), "127.0.0.1:8199", "http://127.0.0.1:8199"),
        ((), "[::1]:8199", "http://[::1]:8199"),
        ((), "0.0.0.0:8199", "http://127.0.0.1:8199"),
        ((), "[::]:8199", "http://[::1]:8199"),
        (("--api", "http://127.0.0.1:8087"), "127.0.0.1:8199", "http://127.0.0.1:8087"),
    ],
)
def test_the_sidecar_of_the_file_is_asked(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    listens: str,
    asked: str,
) -> None:
    """At the address at which it listens, unless the caller names another one."""
    monkeypatch.setattr("coordinator.cli.doctor_host.examine_host", lambda *_: [])
    file = tmp_path / "sidecar.toml"
    file.write_text(
        "\n".join(
            (
                'broker_id = "broker-1"',
                'gate_listen = "127.0.0.1:8299"',
                'gate_upstream = "127.0.0.1:8399"',
                f'admin_listen = "{listens}"',
                'admin_hosts = ["sidecar.example"]',
                'auth_secret_key_file = "/nowhere/secret"',
                'super_user_roles = ["admin"]',
                'broker_web_url = "http://127.0.0.1:8499"',
                'bus_service_url = "pulsar://127.0.0.1:8599"',
                'zookeeper_servers = "127.0.0.1:8699"',
            )
        )
    )
    requests: list[httpx.URL] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        requests.append(request.url)
        raise httpx.ConnectError("refused")

    run(*words, "doctor", "--config", str(file), carrier=httpx.MockTransport(refuse))

    assert {f"{url.scheme}://{url.netloc.decode()}" for url in requests} == {asked}


@pytest.mark.parametrize("command", ["doctor", "sidecar"])
def test_bad_configuration_is_wrong_use(run: Run, tmp_path: Path, command: str) -> None:
    """The loader's message, and exit code 2."""
    broken = tmp_path / "sidecar.toml"
    broken.write_text('speed = "high"\n')

    for path in (broken, tmp_path / "missing.toml"):
        refused = run(command, "--config", str(path))

        assert refused.exit_code == 2
        assert "speed: unknown key" in refused.stderr or "cannot be read" in refused.stderr


@pytest.mark.parametrize(
    ("changes", "subject", "fix"),
    [
        ({"reports_dropped": {"foreign": 1}}, "reports", "one broker_id"),
        ({"failed_tasks": (TaskView("samples", 2, "why", True),)}, "tasks", "what the log says"),
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
    """Foreign reports, and sidecars that go by something else."""
    world.views.turn(**changes)

    found = run("doctor", "--json")

    wrong = [each for each in json.loads(found.stdout) if each["level"] == "wrong"]
    assert found.exit_code == 1
    assert [each["subject"] for each in wrong] == [subject]
    assert fix in wrong[0]["fix"]


def test_roles_that_no_client_can_prove_are_wrong(run: Run, world: World) -> None:
    """Where a gate has no keys; where no role is attached there is nothing to say."""
    world.app = app_of(replace(world.backend, proves_roles=False))
    carrier = InProcess(world)
    before = json.loads(run("doctor", "--json", carrier=carrier).stdout)
    run("groups", "attach", "orders", "--default-role", carrier=carrier)
    after = json.loads(run("doctor", "--json", carrier=carrier).stdout)

    assert [each for each in before if each["subject"] == "roles"] == []
    (found,) = (each for each in after if each["subject"] == "roles")
    assert found["level"] == "wrong"
    assert found["fix"].startswith("Name auth_public_key_files, auth_secret_key_file")
    assert [each for each in after if each["subject"] == "groups"] == []


def test_a_group_that_nothing_is_attached_to_is_noted(run: Run) -> None:
    """It limits nothing, which is seldom meant; attached, there is nothing to say."""
    before = json.loads(run("doctor", "--json").stdout)
    run("groups", "attach", "orders", "--namespace", "public/default")
    after = json.loads(run("doctor", "--json").stdout)

    noted = [each for each in before if each["subject"] == "groups"]
    assert [each["level"] for each in noted] == ["note"]
    assert noted[0]["fix"] == "pulsar-quota groups attach orders --namespace T/N"
    assert [each for each in after if each["subject"] == "groups"] == []


def test_a_group_that_the_configuration_names_is_not_noted(run: Run, world: World) -> None:
    """All traffic counts against it, or all delayed messages."""
    world.app = app_of(replace(world.backend, cluster_group="orders"))
    findings = json.loads(run("doctor", "--json", carrier=InProcess(world)).stdout)

    assert [each for each in findings if each["subject"] == "groups"] == []


def test_a_sidecar_that_wants_a_token_is_not_to_be_started(run: Run) -> None:
    """It runs, as its answer shows."""
    answer = httpx.Response(401, json={"reason": "A token is needed"})
    done = run("doctor", "--json", carrier=httpx.MockTransport(lambda _: answer))

    (found,) = json.loads(done.stdout)
    assert (done.exit_code, found["level"]) == (1, "wrong")
    assert found["fix"] == "Any token that the sidecar takes will do."


@pytest.mark.parametrize(
    ("words", "broker"), [((), "broker-1"), (("--api", "http://127.0.0.1:8087"), None)]
)
def test_a_sidecar_that_wants_a_token_holds_its_ports(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    broker: str | None,
) -> None:
    """The doctor must not have it stopped."""
    told: list[object] = []

    def examined(_config: object, name: object, _probes: object) -> list[object]:
        told.append(name)
        return []

    monkeypatch.setattr("coordinator.cli.doctor_host.examine_host", examined)
    file = tmp_path / "sidecar.toml"
    file.write_text(run("config", "example").stdout)
    answer = httpx.Response(401, json={"reason": "A token is needed"})

    run(*words, "doctor", "--config", str(file), carrier=httpx.MockTransport(lambda _: answer))

    assert told == [broker]


def test_a_parent_is_not_noted(run: Run) -> None:
    """Nothing can be attached to it, and it limits its children."""
    run("groups", "create", "orders-new", "--parent", "orders")
    findings = json.loads(run("doctor", "--json").stdout)

    noted = [each["text"] for each in findings if each["subject"] == "groups"]
    assert noted == ["nothing is attached to orders-new, so it limits nothing"]


def test_a_sidecar_that_ends_in_the_middle_is_told_with_what_was_found_before(
    run: Run, world: World
) -> None:
    """The findings up to then are shown."""

    class Ending(InProcess):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path == "/quota/v1/conditions":
                raise httpx.ConnectError("refused")
            return super().handle_request(request)

    findings = json.loads(run("doctor", "--json", carrier=Ending(world)).stdout)

    by_subject = {each["subject"]: each for each in findings}
    assert by_subject["admin API"]["level"] == "ok"
    assert by_subject["conditions"]["level"] == "note"
    assert by_subject["conditions"]["text"].startswith("Cannot reach http://127.0.0.1:8087")


def holding(world: World, *found: Condition) -> None:
    """Let these conditions hold at the sidecar."""
    world.watch.conditions = Conditions.of(found)


def test_conditions_that_cost_something_are_wrong_and_the_effects_of_limits_are_noted(
    run: Run, world: World
) -> None:
    """Each with its remedy; those that other checks tell are left to them."""
    holding(
        world,
        Condition(ConditionKind.PEER_LOST, "b2", "b2 is gone without saying so"),
        Condition(ConditionKind.THROTTLED, "orders", "clients of orders wait at b1"),
        Condition(ConditionKind.TRAFFIC_ROUND_THE_GATE, "b1 t/n", "it goes round the gate"),
    )
    examined = json.loads(run("doctor", "--json").stdout)

    told = [each for each in examined if each["subject"] == "conditions"]
    assert [(each["level"], each["text"]) for each in told] == [
        ("wrong", "b2 is gone without saying so"),
        ("note", "clients of orders wait at b1"),
    ]
    assert told[0]["fix"].startswith("Look at that broker")


def test_of_many_conditions_the_worst_are_told_and_the_others_counted(
    run: Run, world: World
) -> None:
    """The command for all of them is named."""
    assert "ok    conditions     none holds" in run("doctor", columns=400).stdout
    holding(
        world,
        Condition(ConditionKind.CERTIFICATE_HIGH, "orders", "may add up to too much"),
        *(Condition(ConditionKind.THROTTLED, f"g{number}", "waits") for number in range(11)),
    )
    shown = run("doctor", columns=400).stdout

    assert "may add up to too much" in shown
    assert "7 more conditions; see pulsar-quota conditions" in shown

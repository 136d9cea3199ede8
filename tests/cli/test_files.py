"""``groups apply``, ``groups export`` and ``import``."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
import yaml

from coordinator.runtime import client_tls
from tests.admin_api.world import World
from tests.cli.conftest import InProcess, Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file to write groups to."""
    return tmp_path / "groups.yaml"


def definition(run: Run, name: str) -> dict[str, object]:
    """A group as it is."""
    found: dict[str, object] = json.loads(run("groups", "get", name, "--json").stdout)
    return found


WANTED = """\
groups:
  orders:
    publishRateInMsgs: 6000
    overshootPolicy: eager
    tenants: [public]
    namespaces: [public/other]
  bills:
    publishRateInBytes: 1000
"""
NOTHING_ELSE = {"roles": [], "defaultRole": False, "subscriptions": [], "remoteClusters": []}
DIFFERENCE = [
    "~ change orders: publishRateInMsgs 3000 -> 6000, overshootPolicy balanced -> eager",
    "+ create bills: publishRateInBytes 1000",
    "~ attach tenants/public to orders",
    "~ attach namespaces/public/other to orders",
    "- detach namespaces/public/default from orders",
]


def test_a_dry_run_shows_the_difference_and_changes_nothing(run: Run, file: Path) -> None:
    """Groups, attachments, and what is attached but not listed."""
    run("groups", "attach", "orders", "--namespace", "public/default")
    file.write_text(WANTED)
    before = definition(run, "orders")

    shown = run("groups", "apply", "-f", str(file), "--dry-run")

    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines() == [*DIFFERENCE, "5 to change; nothing was changed."]
    assert definition(run, "orders") == before


def test_a_file_is_applied_once(run: Run, file: Path) -> None:
    """The second time there is nothing to change."""
    run("groups", "attach", "orders", "--namespace", "public/default")
    file.write_text(WANTED)

    first = run("groups", "apply", "-f", str(file))
    second = run("groups", "apply", "-f", str(file))

    assert first.stdout.splitlines() == [*DIFFERENCE, "5 changed."]
    assert second.stdout == "Nothing to change.\n"
    orders = definition(run, "orders")
    assert (orders["publishRateInMsgs"], orders["overshootPolicy"]) == (6_000, "eager")
    assert orders["attachments"] == NOTHING_ELSE | {
        "tenants": ["public"],
        "namespaces": ["public/other"],
    }


def test_what_is_exported_can_be_applied(run: Run, file: Path) -> None:
    """There it makes no difference; in another place it makes the same groups."""
    run("groups", "attach", "orders", "--tenant", "public")
    exported = run("groups", "export")
    file.write_text(exported.stdout)

    assert yaml.safe_load(exported.stdout) == {
        "groups": {"orders": {"publishRateInMsgs": 3_000, "tenants": ["public"], "namespaces": []}}
    }
    assert json.loads(run("groups", "export", "--json").stdout) == yaml.safe_load(exported.stdout)
    assert run("groups", "apply", "-f", str(file)).stdout == "Nothing to change.\n"

    run("groups", "detach", "--tenant", "public")
    run("groups", "delete", "orders")
    assert run("groups", "apply", "-f", str(file)).exit_code == 0
    assert run("groups", "export").stdout == exported.stdout


def test_a_limit_with_a_fraction_is_applied_and_exported(run: Run, file: Path) -> None:
    """As the number that it is, once."""
    file.write_text("groups: {slow: {publishRateInMsgs: 0.5}}")
    made, again = (run("groups", "apply", "-f", str(file)).stdout for _ in range(2))

    assert made.splitlines() == ["+ create slow: publishRateInMsgs 0.5", "1 changed."]
    assert again == "Nothing to change.\n"
    assert "publishRateInMsgs: 0.5" in run("groups", "export").stdout


def test_a_field_that_is_absent_has_its_default(run: Run, file: Path) -> None:
    """Attachments that are not mentioned are left alone, and so are other groups."""
    run("groups", "attach", "orders", "--tenant", "public")
    run("groups", "create", "bills")
    file.write_text("groups: {orders: }")

    shown = run("groups", "apply", "-f", str(file), "--json")

    assert json.loads(shown.stdout) == {
        "changes": ["~ change orders: publishRateInMsgs 3000 -> -1"],
        "notes": [],
        "made": True,
    }
    assert definition(run, "orders")["attachments"] == NOTHING_ELSE | {
        "tenants": ["public"],
        "namespaces": [],
    }
    assert definition(run, "bills")["name"] == "bills"


def test_an_owner_moves_without_being_detached(run: Run, file: Path) -> None:
    """It is never without a limit."""
    run("groups", "attach", "orders", "--tenant", "public")
    file.write_text(
        "groups: {orders: {publishRateInMsgs: 3000, tenants: []}, b: {tenants: [public]}}"
    )

    steps = run("groups", "apply", "-f", str(file)).stdout.splitlines()

    assert steps[1:] == ["~ attach tenants/public from orders to b", "2 changed."]
    assert definition(run, "b")["attachments"] == NOTHING_ELSE | {
        "tenants": ["public"],
        "namespaces": [],
    }


class Interfering(InProcess):
    """A server whose group another writer changes just before the first PUT arrives."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Be faster."""
        if request.method == "PUT" and all(r.method != "PUT" for r in self.requests):
            other = httpx.Request("PUT", request.url, json={"dispatchRateInMsgs": 5})
            super().handle_request(other)
        return super().handle_request(request)


def test_who_was_faster_is_not_overwritten(run: Run, world: World, file: Path) -> None:
    """The difference was made from something else; the message says how far it came."""
    file.write_text("groups: {orders: {publishRateInMsgs: 6000}}")

    refused = run("groups", "apply", "-f", str(file), carrier=Interfering(world))

    assert refused.exit_code == 1
    assert "changed since you read it" in refused.stderr
    assert "0 of 1 changes were made" in refused.stderr
    assert definition(run, "orders")["publishRateInMsgs"] == 3_000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "write one key, groups"),
        ("[]", "write one key, groups"),
        ("groups: {}\nother: 1", "write one key, groups"),
        ("groups: [orders]", "groups: write the groups by name"),
        ("groups: {a/b: {}}", "groups.a/b: 'a/b' is not a name"),
        ("groups: {1: {}}", "groups.1: '' is not a name"),
        ("groups: {a: 7}", "groups.a: write fields"),
        ("groups: {a: {publishRate: 7}}", "groups.a.publishRate: unknown; known are publishRate"),
        ("groups: {a: {publishRateInMsgs: many}}", "groups.a.publishRateInMsgs: write a number"),
        ("groups: {a: {publishRateInMsgs: true}}", "groups.a.publishRateInMsgs: write a number"),
        ("groups: {a: {publishRateInMsgs: -2}}", "groups.a.publishRateInMsgs: write a number"),
        ("groups: {a: {publishRateInMsgs: 0.0005}}", "with at most three decimals, or -1"),
        ("groups: {a: {publishRateInMsgs: .nan}}", "with at most three decimals, or -1"),
        ("groups: {a: {publishRateInMsgs: -0.5}}", "with at most three decimals, or -1"),
        ("groups: {a: {publishRateInBytes: 0.5}}", "groups.a.publishRateInBytes: write a whole"),
        ("groups: {a: {publishRateInMsgs: 2147483648}}", "from 0 to 2147483647"),
        ("groups: {a: {law: jungle}}", "groups.a.law: write one of max-min"),
        ("groups: {a: {law: [x]}}", "groups.a.law: write one of max-min"),
        ("groups: {a: {weights: 2}}", "groups.a.weights: write one of equal, topics, not 2"),
        ("groups: {a: {onLimit: drop}}", "groups.a.onLimit: write one of hold, refuse, not 'drop'"),
        ("groups: {a: {holdMillis: -1}}", "groups.a.holdMillis: write a whole number from 0 to"),
        ("groups: {a: {burstSeconds: 0.5}}", "groups.a.burstSeconds: write a whole number from 0"),
        ("groups: {a: {allowedTenants: shop}}", "groups.a.allowedTenants: must be a list of"),
        ("groups: {a: {allowedTenants: [x, x]}}", "groups.a.allowedTenants: x stands twice"),
        ("groups: {a: {tenants: shop}}", "groups.a.tenants: write a list"),
        ("groups: {a: {tenants: [shop/x]}}", "groups.a.tenants: write names of tenants"),
        ("groups: {a: {namespaces: [shop]}}", "groups.a.namespaces: write tenant/namespace"),
        ("groups: {a: {namespaces: [shop/]}}", "groups.a.namespaces: '' is not a name"),
        ("groups: {a: {}, a: {}}", "not YAML: a stands there twice"),
        ("groups: {a: {publishRateInMsgs: 2026-02-30}}", "not YAML: day is out of range"),
        ("groups: {a: {publishRateInMsgs: !!bool maybe}}", "not YAML: 'maybe'"),
        ("groups: {a: {publishRateInMsgs: !!int ''}}", "not YAML: string index out of range"),
        ("groups: {a: {law: !!timestamp now}}", "not YAML: "),
        (
            "groups: {a: {tenants: [t]}, b: {tenants: [u, t]}}",
            "groups.b: tenants/t stands in groups.a, too; name it in one",
        ),
        (
            "groups: {a: {defaultRole: true}, b: {defaultRole: true}}",
            "groups.b: default-role stands in groups.a, too; name it in one",
        ),
        ("groups: {", "not YAML"),
        ("groups: !!python/object:os.system {}", "not YAML"),
        ("\0", "not YAML"),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(
    run: Run, file: Path, transport: InProcess, content: str, reason: str
) -> None:
    """Exit code 2, and the API is not even asked."""
    file.write_text(content)

    refused = run("groups", "apply", "-f", str(file))

    assert refused.exit_code == 2
    assert reason in refused.stderr
    assert str(file) in refused.stderr
    assert not transport.requests


def test_a_fraction_that_cannot_be_shared_changes_nothing(run: Run, file: Path) -> None:
    """The group and the field are named before any group is written."""
    file.write_text("groups: {a: {}, b: {publishRateInMsgs: 0.5, publishRateInBytes: 1}}")

    refused = run("groups", "apply", "-f", str(file))

    assert refused.exit_code == 2
    assert "groups.b.publishRateInMsgs: a fraction needs publishRateInBytes -1" in refused.stderr
    assert run("groups", "get", "a").exit_code == 1


def test_a_file_that_is_not_there(run: Run, file: Path) -> None:
    """Exit code 2 and the name."""
    refused = run("groups", "apply", "-f", str(file))

    assert (refused.exit_code, "No such file" in refused.stderr) == (2, True)


class WithPulsar(InProcess):
    """Carries what is for the host ``pulsar`` to a Pulsar with resource groups of its own."""

    answers: dict[str, object] = {  # noqa: RUF012 - read only
        "/admin/v2/resourcegroups": ["orders", "zero", "a b"],
        "/admin/v2/resourcegroups/orders": {"publishRateInMsgs": 100, "publishRateInBytes": None},
        "/admin/v2/resourcegroups/zero": {"publishRateInMsgs": 0, "dispatchRateInBytes": -1},
        "/admin/v2/tenants": ["public"],
        "/admin/v2/namespaces/public": ["public/default", "public/other"],
        "/admin/v2/namespaces/public/default/resourcegroup": "zero",
    }

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Ask Pulsar or the app."""
        if request.url.host != "pulsar":
            return super().handle_request(request)
        path = request.url.path
        if path.endswith("/other/resourcegroup"):
            return httpx.Response(204, request=request)
        if path.endswith("/resourcegroup"):
            return httpx.Response(200, text="zero", request=request)
        assert request.headers.get("authorization") == "Bearer T"
        return httpx.Response(200, json=self.answers[path], request=request)


def test_groups_of_a_running_pulsar_are_imported(run: Run, world: World) -> None:
    """Rates and attachments; what means something else in Pulsar is said."""
    run("groups", "update", "orders", "--overshoot-policy", "eager")
    words = ("import", "--from", "http://pulsar", "--source-token", "T")

    shown = run(*words, carrier=WithPulsar(world))

    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines() == [
        "! zero: publishRateInMsgs 0 is not limited in Pulsar, hence -1",
        "! left out: 'a b' is not a name: use 1 to 255 of A-Z a-z 0-9 _ . : = -",
        "~ change orders: publishRateInMsgs 3000 -> 100",
        "+ create zero: nothing limited",
        "~ attach namespaces/public/default to zero",
        "3 changed.",
    ]
    assert definition(run, "orders")["overshootPolicy"] == "eager"
    again = run(*words, carrier=WithPulsar(world))
    assert again.stdout.splitlines()[-1] == "Nothing to change."


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (httpx.Response(401, text="no"), "Pulsar answered 401 to GET /admin/v2/resourcegroups: no"),
        (httpx.Response(200, text="<html>"), "GET /resourcegroups answered no JSON"),
        (httpx.Response(200, text="[" * 100_000), "GET /resourcegroups answered no JSON"),
    ],
)
def test_a_pulsar_that_does_not_say(run: Run, answer: httpx.Response, reason: str) -> None:
    """Exit code 1 with what it said."""
    refused = run(
        "import", "--from", "http://pulsar", carrier=httpx.MockTransport(lambda _: answer)
    )

    assert refused.exit_code == 1
    assert reason in refused.stderr


@pytest.mark.parametrize(
    ("path", "answer", "reason"),
    [
        ("resourcegroups", {"reason": "no"}, "answered no list of names"),
        ("resourcegroups", [7], "answered no list of names"),
        ("resourcegroups/orders", ["orders"], "answered no resource group"),
        (
            "resourcegroups/orders",
            {"publishRateInMsgs": "many"},
            "answered publishRateInMsgs 'many', which is no whole number",
        ),
        ("tenants", "public", "answered no list of names"),
        ("namespaces/public", {}, "answered no list of names"),
    ],
)
def test_what_answers_in_another_form_than_pulsar_is_told_in_a_line(
    run: Run, world: World, path: str, answer: object, reason: str
) -> None:
    """Exit code 1, with what was asked; nothing is made."""
    pulsar = WithPulsar(world)
    pulsar.answers = {**WithPulsar.answers, f"/admin/v2/{path}": answer}
    refused = run("import", "--from", "http://pulsar", "--source-token", "T", carrier=pulsar)

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == f"Cannot read Pulsar's groups at http://pulsar: GET /{path} {reason}\n"
    assert list(world.views.shown.groups) == ["orders"]


def test_a_pulsar_over_https_is_trusted_by_the_machines_authorities(run: Run, world: World) -> None:
    """They know an organisation's own, which those of a library do not."""
    client_tls._machine_trust.cache_clear()
    words = ("import", "--from", "https://pulsar", "--source-token", "T", "--dry-run")

    assert run(*words, carrier=WithPulsar(world)).exit_code == 0
    assert client_tls._machine_trust.cache_info().misses == 1


def test_a_source_that_is_no_url(run: Run) -> None:
    """Exit code 2 and how to write it."""
    refused = run("import", "--from", "pulsar")

    assert (refused.exit_code, "write it like" in refused.stderr) == (2, True)

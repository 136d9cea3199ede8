"""``pulsar-quota groups`` and owners of traffic: options, files, and what is refused unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def attached(run: Run, group: str = "orders") -> dict[str, object]:
    """Return the attachments of a group."""
    found: dict[str, object] = json.loads(run("groups", "get", group, "--json").stdout)
    attachments = found["attachments"]
    assert isinstance(attachments, dict)
    return attachments


AUDIT = "persistent/public/default/orders/audit/log"
OWNERS = [
    ("--tenant", "public", "tenants", "tenants", ""),
    ("--namespace", "public/default", "namespaces", "namespaces", ""),
    ("--role", "batch", "roles", "roles", "role "),
    ("--role", "team-*", "roles", "roles", "role "),
    ("--role", "spiffe://a/b", "roles", "roles", "role "),
    ("--role", "ä b", "roles", "roles", "role "),
    ("--subscription", AUDIT, "subscriptions", "subscriptions", "subscription "),
    ("--subscription", f"persistent://{AUDIT[11:]}", "subscriptions", "subscriptions", ""),
    ("--remote-cluster", "west", "remoteClusters", "clusters", "replication with "),
]


@pytest.mark.parametrize(("option", "name", "key", "kind", "words"), OWNERS)
def test_an_owner_is_attached_shown_and_detached(
    run: Run, option: str, name: str, key: str, kind: str, words: str
) -> None:
    """A group in use cannot be deleted; detaching names the group or not, and twice is fine."""
    owner = name.replace("persistent://", "persistent/")
    done = run("groups", "attach", "orders", option, name)
    assert done.stdout == f"ResourceGroup orders attached to {kind}/{owner}.\n"
    assert attached(run)[key] == [owner]
    for asked in (("get", "orders"), ("list",)):
        assert words + owner in " ".join(run("groups", *asked, columns=300).stdout.split())
    in_use = run("groups", "delete", "orders")
    assert in_use.exit_code == 1
    assert "ResourceGroup is in use by " in in_use.stderr
    assert owner in in_use.stderr
    other = run("groups", "detach", "payments", option, name)
    assert (other.exit_code, "is attached to ResourceGroup orders" in other.stderr) == (1, True)
    detached = run("groups", "detach", "orders", option, name)
    again = run("groups", "detach", option, name, "--json")
    assert (detached.exit_code, json.loads(again.stdout)["detachedFrom"]) == (0, None)
    assert not any(attached(run).values())
    deleted = run("groups", "delete", "orders", "--json")
    assert json.loads(deleted.stdout) == {"name": "orders", "deleted": True}


def test_the_default_is_an_option_of_its_own(run: Run) -> None:
    """It needs no name."""
    run("groups", "attach", "orders", "--default-role")
    assert attached(run)["defaultRole"] is True
    assert "roles without an attachment" in run("groups", "get", "orders").stdout
    run("groups", "detach", "--default-role")
    assert attached(run)["defaultRole"] is False


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--role", "*"), "--role: role '*': matches every role; attach the default"),
        (("--role", "a*b"), "a pattern has one *, at its end"),
        (("--role", "a\nb"), "use printable letters"),
        (("--role", "x" * 10_240), "use at most 255 bytes"),
        (("--role", ""), "a role must not be empty"),
        (("--role", "a", "--tenant", "public"), "Give one of --tenant"),
        (("--role", "a", "--default-role"), "Give one of --tenant"),
        ((), "Give one of --tenant T, --namespace T/N, --role R, --default-role"),
    ],
)
def test_what_names_no_role_is_refused(run: Run, options: tuple[str, ...], reason: str) -> None:
    """The message names the option and the fix, and nothing is attached."""
    refused = run("groups", "attach", "orders", *options)
    assert refused.exit_code == 2
    assert reason in " ".join(refused.output.split())
    assert not any(attached(run).values())


def test_a_file_states_the_roles_of_a_group(run: Run, tmp_path: Path) -> None:
    """A role that it does not list is detached, and the next run finds nothing to do."""
    file = tmp_path / "groups.yaml"
    run("groups", "attach", "orders", "--role", "old")
    file.write_text(
        "groups:\n  orders: {publishRateInMsgs: 3000, roles: [batch, 'team-*'], defaultRole: true}\n"
    )
    shown = run("groups", "apply", "-f", str(file), "--dry-run").stdout.splitlines()
    assert shown[:4] == [
        "~ attach roles/batch to orders",
        "~ attach roles/team-* to orders",
        "~ attach default-role to orders",
        "- detach roles/old from orders",
    ]
    assert attached(run)["roles"] == ["old"]
    assert run("groups", "apply", "-f", str(file)).exit_code == 0
    assert attached(run)["roles"] == ["batch", "team-*"]
    assert attached(run)["defaultRole"] is True
    assert "4 to change" not in run("groups", "apply", "-f", str(file), "--dry-run").stdout
    exported = run("groups", "export").stdout
    assert "team-*" in exported
    file.write_text(exported)
    assert "nothing to change" in run("groups", "apply", "-f", str(file)).stdout.lower()
    file.write_text("groups:\n  orders: {publishRateInMsgs: 3000, defaultRole: false}\n")
    run("groups", "apply", "-f", str(file))
    assert attached(run)["roles"] == ["batch", "team-*"]
    assert attached(run)["defaultRole"] is False


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("roles: ['*']", "orders.roles: role '*': matches every role"),
        ("roles: batch", "orders.roles: write a list of roles"),
        ("roles: [7]", "orders.roles: write a list of roles"),
        ("roles: ['']", "orders.roles: a role must not be empty"),
        ("defaultRole: maybe", "orders.defaultRole: write true or false"),
    ],
)
def test_a_file_with_a_role_that_cannot_be_changes_nothing(
    run: Run, tmp_path: Path, body: str, reason: str
) -> None:
    """The place is named."""
    file = tmp_path / "groups.yaml"
    file.write_text(f"groups:\n  bills: {{}}\n  orders: {{{body}}}\n")
    refused = run("groups", "apply", "-f", str(file))
    assert refused.exit_code == 2
    assert reason in " ".join(refused.output.split())
    assert run("groups", "get", "bills").exit_code == 1


def test_a_file_states_subscriptions_and_remote_clusters(run: Run, tmp_path: Path) -> None:
    """A cluster that it does not list is detached; a kind that it does not name stays."""
    file = tmp_path / "groups.yaml"
    run("groups", "attach", "orders", "--remote-cluster", "north")
    run("groups", "attach", "orders", "--role", "batch")
    stated = f"publishRateInMsgs: 3000, subscriptions: [{AUDIT}], remoteClusters: [west]"
    file.write_text(f"groups: {{orders: {{{stated}}}}}")
    assert run("groups", "apply", "-f", str(file)).exit_code == 0
    found = attached(run)
    assert found["subscriptions"] == [AUDIT]
    assert found["remoteClusters"] == ["west"]
    assert found["roles"] == ["batch"]
    for body in ("subscriptions: [a/b]", "remoteClusters: [a b]", "subscriptions: x"):
        file.write_text(f"groups: {{orders: {{{body}}}}}")
        refused = run("groups", "apply", "-f", str(file))
        assert (refused.exit_code, "groups.orders." in refused.output) == (2, True)
    assert attached(run) == found

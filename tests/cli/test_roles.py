"""``pulsar-quota groups`` and roles: options, files, and what is refused before anything is asked."""

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


@pytest.mark.parametrize("role", ["batch", "team-*", "spiffe://a/b", "ä b"])
def test_a_role_is_attached_and_detached(run: Run, role: str) -> None:
    """By name or by a pattern; both say what they did."""
    done = run("groups", "attach", "orders", "--role", role)
    assert done.stdout == f"ResourceGroup orders attached to roles/{role}.\n"
    assert attached(run)["roles"] == [role]
    assert f"role {role}" in run("groups", "list").stdout
    refused = run("groups", "detach", "bills", "--role", role)
    assert (refused.exit_code, "is attached to ResourceGroup orders" in refused.output) == (1, True)
    assert run("groups", "detach", "orders", "--role", role).exit_code == 0
    assert attached(run)["roles"] == []


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


AUDIT = "persistent/public/default/orders/audit/log"


@pytest.mark.parametrize(
    ("options", "key", "owner", "shown"),
    [
        (("--subscription", AUDIT), "subscriptions", AUDIT, f"subscription {AUDIT}"),
        (("--subscription", AUDIT.replace("/", "://", 1)), "subscriptions", AUDIT, "audit/log"),
        (("--remote-cluster", "west"), "remoteClusters", "west", "replication with west"),
    ],
)
def test_single_subscriptions_and_replication_are_attached_too(
    run: Run, options: tuple[str, str], key: str, owner: str, shown: str
) -> None:
    """By options of their own."""
    assert run("groups", "attach", "orders", *options).exit_code == 0
    assert attached(run)[key] == [owner]
    assert shown in " ".join(run("groups", "get", "orders").stdout.split())
    assert run("groups", "detach", "orders", *options).exit_code == 0
    assert not any(attached(run).values())


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

"""``pulsar-quota groups``: pulsar-admin's flags, exit codes, and answers for people and machines."""

from __future__ import annotations

import json

import httpx
import pytest

from admin_api.schemas.definitions import GroupPatch
from coordinator.cli.group_flags import FLAGS
from coordinator.core.model import Rates
from tests.admin_api.world import World
from tests.cli.conftest import InProcess, Run

CREATE = ("groups", "create", "rg1")


def test_created_group_is_shown(run: Run) -> None:
    """Both spellings of the flags are pulsar-admin's."""
    created = run(*CREATE, "-mp", "100", "--byte-publish-rate", "10000", "-md", "-1", "-bd", "0")
    shown = json.loads(run("groups", "get", "rg1", "--json").stdout)

    assert (created.exit_code, created.stdout) == (0, "ResourceGroup rg1 created.\n")
    assert [shown[key] for key in list(shown)[:4]] == [100, 10_000, -1, 0]


def test_a_limit_of_messages_may_have_a_fraction(run: Run) -> None:
    """It is shown as it was given, and a whole one after it is whole again."""
    run(*CREATE, "-mp", "0.5", "-md", "1000.25")
    table, listed = run("groups", "get", "rg1").stdout, run("groups", "list").stdout
    whole = json.loads(run("groups", "update", "rg1", "-mp", "2", "--json").stdout)

    assert all(text in shown for text in ("0.5", "1,000.25") for shown in (table, listed))
    assert [whole["publishRateInMsgs"], whole["dispatchRateInMsgs"]] == [2, 1000.25]


@pytest.mark.parametrize("flags", [("-mp", "-bp"), ("--msg-publish-rate", "--byte-publish-rate")])
def test_update_changes_what_is_given(run: Run, flags: tuple[str, str]) -> None:
    """Options that are not given keep their values."""
    run(*CREATE, "-md", "7")

    updated = run("groups", "update", "rg1", flags[0], "1", flags[1], "2", "--json")

    rates = list(json.loads(updated.stdout).values())[:4]
    assert (updated.exit_code, rates) == (0, [1, 2, 7, -1])


def test_own_settings(run: Run) -> None:
    """The law, the weights and both policies are flags, too."""
    shares = ("--law", "max-min", "--weights", "topics")
    policies = ("--overshoot-policy", "eager", "--partition-policy", "safe")

    created = json.loads(run(*CREATE, *shares, *policies, "--json").stdout)

    names = ("law", "weights", "overshootPolicy", "partitionPolicy")
    assert tuple(created[name] for name in names) == ("max-min", "topics", "eager", "safe")


def test_every_setting_of_a_group_has_a_flag() -> None:
    """A field that the API takes and no flag sets could not be changed from here."""
    assert set(FLAGS) == {field.alias for field in GroupPatch.model_fields.values()}


def test_the_handling_of_traffic_is_set_by_flags(run: Run) -> None:
    """They are shown, and a hold time for which stock clients do not wait is told."""
    flags = ("--on-limit", "refuse", "--hold-millis", "250", "--burst-seconds", "5")
    created = json.loads(run(*CREATE, *flags, "--json").stdout)
    assert [created[key] for key in ("onLimit", "holdMillis", "burstSeconds")] == ["refuse", 250, 5]
    shown = run("groups", "get", "rg1").stdout
    assert "refuse after 250 ms" in shown
    assert "5 s of the limit" in shown

    told = run("groups", "update", "rg1", "--hold-millis", "30000")
    assert told.exit_code == 0
    assert "Note: clients whose send timeout (30,000 ms by default) is shorter" in told.stdout


def test_the_tenants_that_a_group_allows_are_set_between_commas(run: Run) -> None:
    """They are shown; nothing between the quotes closes the group."""
    created = json.loads(run(*CREATE, "--allowed-tenants", "shop, bank", "--json").stdout)
    assert created["allowedTenants"] == ["bank", "shop"]
    assert "bank, shop" in run("groups", "get", "rg1").stdout

    updated = json.loads(run("groups", "update", "rg1", "--allowed-tenants", "", "--json").stdout)
    assert updated["allowedTenants"] == []


def test_list_is_a_table(run: Run) -> None:
    """Rates have thousands separators, and no limit is a word."""
    run("groups", "attach", "orders", "--namespace", "public/default")

    listed = run("groups", "list")

    row = next(line for line in listed.stdout.splitlines() if "orders" in line)
    assert row.split() == [
        "orders",
        "3,000",
        "unlimited",
        "unlimited",
        "unlimited",
        "public/default",
    ]


def test_list_of_nothing(run: Run) -> None:
    """An empty table would look like a failure."""
    run("groups", "delete", "orders")

    assert run("groups", "list").stdout == "There are no resource groups.\n"
    assert json.loads(run("groups", "list", "--json").stdout) == []


def test_deleting_by_force_detaches_first(run: Run) -> None:
    """Every owner; the group of another is left alone."""
    run("groups", "create", "other", "-mp", "1")
    for owner in (("--tenant", "public"), ("--role", "team-*"), ("--default-role",)):
        assert run("groups", "attach", "orders", *owner).exit_code == 0
    run("groups", "attach", "other", "--namespace", "public/default")

    assert run("groups", "delete", "orders", "--force").exit_code == 0
    (left,) = json.loads(run("groups", "list", "--json").stdout)
    assert (left["name"], left["attachments"]["namespaces"]) == ("other", ["public/default"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("create", "orders"), "exists already; change it with `groups update`"),
        (("update", "none", "-mp", "1"), "does not exist; create it with `groups create`"),
        (("get", "none"), "ResourceGroup does not exist"),
        (("delete", "none"), "ResourceGroup does not exist"),
        (("attach", "none", "--tenant", "public"), "ResourceGroup does not exist"),
        (("attach", "orders", "--namespace", "public/nope"), "Namespace does not exist"),
        (("attach", "orders", "--tenant", "nope"), "Tenant does not exist"),
    ],
)
def test_what_fails_is_1(run: Run, words: tuple[str, ...], reason: str) -> None:
    """One line on standard error, nothing on standard output."""
    failed = run("groups", *words)

    assert (failed.exit_code, failed.stdout) == (1, "")
    assert reason in failed.stderr
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("update", "orders"),
        ("update", "orders", "-mp", "-5"),
        ("update", "orders", "-mp", "abc"),
        ("update", "orders", "-mp", "1.0005"),
        ("update", "orders", "-mp", "nan"),
        ("update", "orders", "-mp", "1e400"),
        ("update", "orders", "-bp", "1.5"),
        ("update", "orders", "--law", "mine"),
        ("update", "orders", "--weights", "heavy"),
        ("update", "orders", "--on-limit", "drop"),
        ("update", "orders", "--hold-millis", "-1"),
        ("update", "orders", "--burst-seconds", "3601"),
        ("create", "a/b"),
        ("create", ""),
        ("get", ".."),
        ("create",),
        ("attach", "orders"),
        ("attach", "orders", "--tenant", "t", "--namespace", "t/n"),
        ("attach", "orders", "--tenant", "t/n"),
        ("attach", "orders", "--tenant", "a b"),
        ("attach", "orders", "--tenant", ".."),
        ("attach", "orders", "--namespace", "t/n*"),
        ("attach", "orders", "--namespace", "t"),
        ("detach", "--namespace", "t/n/x"),
        ("list", "--nope"),
        ("nope",),
    ],
)
def test_wrong_use_is_2(run: Run, words: tuple[str, ...]) -> None:
    """A request that can never work has an exit code of its own."""
    wrong = run("groups", *words)

    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr


def test_failure_as_json(run: Run) -> None:
    """A machine gets the reason as Pulsar writes it, apart from what it reads."""
    failed = run("--json", "groups", "get", "none")

    assert (failed.exit_code, failed.stdout) == (1, "")
    assert json.loads(failed.stderr) == {"reason": "ResourceGroup does not exist"}


def test_names_stay_within_their_part_of_the_path(run: Run, transport: InProcess) -> None:
    """Any typed name reaches the API as that name, for it to refuse."""
    run("groups", "get", "a%2Fb?x=[red]")

    assert transport.requests[-1].url.raw_path == b"/quota/v1/groups/a%252Fb%3Fx%3D%5Bred%5D"


class Faster(InProcess):
    """A server that another writer asks just before the first PUT arrives."""

    def __init__(self, world: World, method: str) -> None:
        super().__init__(world)
        self._method = method

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Let the other one be first."""
        if request.method == "PUT" and all(each.method != "PUT" for each in self.requests):
            super().handle_request(httpx.Request(self._method, request.url, content=b"{}"))
        return super().handle_request(request)


@pytest.mark.parametrize(
    ("words", "method", "reason"),
    [
        (("create", "rg1", "-mp", "1"), "PUT", "ResourceGroup already exists"),
        (("update", "orders", "-mp", "1"), "DELETE", "ResourceGroup does not exist"),
    ],
)
def test_a_group_that_another_writer_makes_or_deletes_meanwhile_is_left_alone(
    run: Run, world: World, words: tuple[str, ...], method: str, reason: str
) -> None:
    """A create changes no group, and an update makes none."""
    failed = run("groups", *words, carrier=Faster(world, method))

    assert (failed.exit_code, failed.stderr) == (1, f"{reason}\n")
    found = {name: each.group.limits for name, each in world.views.shown.groups.items()}
    limits = {"orders": Rates(publish_messages=3_000)}
    assert found == ({**limits, "rg1": Rates()} if method == "PUT" else {})

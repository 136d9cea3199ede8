"""``audit list`` and ``audit rollback``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from coordinator.cli.audit import change_of
from coordinator.core.model import Rates, ResourceGroup
from coordinator.insight.model.definitions import AuditView, DefinitionState
from tests.cli.conftest import Run


def test_changes_are_listed(run: Run) -> None:
    """Newest first, with who, where from, what and how."""
    run("groups", "update", "orders", "-mp", "1")

    listed = run("audit", "list")

    assert listed.exit_code == 0, listed.output
    rows = [line for line in listed.stdout.splitlines() if "groups/orders" in line]
    assert rows[0].split()[0] == "1"
    assert "publishRateInMsgs 3000 -> 1" in rows[0]
    assert "anonymous" in rows[0]
    assert rows[1].rstrip().endswith("created")


def test_a_change_is_rolled_back(run: Run) -> None:
    """The list then says so."""
    run("groups", "update", "orders", "-mp", "1")

    done = run("audit", "rollback", "1")

    assert (done.exit_code, done.stdout) == (0, "Change 1 rolled back.\n")
    assert json.loads(run("groups", "get", "orders", "--json").stdout)["publishRateInMsgs"] == 3_000
    assert "(rolls back 1)" in run("audit", "list", "--limit", "1").stdout


def test_json_is_what_the_api_says(run: Run) -> None:
    """For machines."""
    (entry,) = json.loads(run("audit", "list", "--json").stdout)

    assert (entry["id"], entry["subject"]) == (0, "groups/orders")
    assert json.loads(run("audit", "rollback", "0", "--json").stdout) == {
        "id": 0,
        "rolledBack": True,
    }


def test_what_changed_since_is_not_rolled_back(run: Run) -> None:
    """One line with the reason, exit code 1."""
    run("groups", "update", "orders", "-mp", "1")

    refused = run("audit", "rollback", "0")

    assert refused.exit_code == 1
    assert "has changed since entry 0" in refused.stderr


GROUP = ResourceGroup("orders", Rates(publish_messages=3_000))
EAGER = DefinitionState.of(replace(GROUP, overshoot_policy="eager"))
BALANCED = DefinitionState.of(GROUP)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (None, "gold", "attached to gold"),
        ("gold", None, "detached from gold"),
        ("gold", "silver", "moved from gold to silver"),
        (None, BALANCED, "created"),
        (BALANCED, None, "deleted"),
        (BALANCED, EAGER, "overshootPolicy balanced -> eager"),
        (None, None, "deleted"),
    ],
)
def test_a_change_in_words(
    before: DefinitionState | str | None, after: DefinitionState | str | None, words: str
) -> None:
    """An entry without before and after is an unreadable group that was deleted."""
    entry = AuditView(
        id=1, at_millis=0, actor="", address="", undoes=None, subject="", before=before, after=after
    )
    assert change_of(entry) == words

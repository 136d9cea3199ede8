"""``pulsar-quota conditions``, and where ``status`` shows them."""

from __future__ import annotations

import asyncio
import json

from coordinator.insight.model.conditions import Condition, ConditionKind, Conditions
from tests.admin_api.test_conditions import lose_a_peer
from tests.admin_api.world import World
from tests.cli.conftest import Run


def test_conditions_are_a_table_with_what_to_do(run: Run, world: World) -> None:
    """The table shows those that hold."""
    assert run("conditions").stdout == "No condition holds.\n"

    asyncio.run(lose_a_peer(world))
    shown = run("conditions", columns=200).stdout

    assert "PeerLost" in shown
    assert "broker-2 is gone without saying so" in shown
    assert "Look at that broker" in shown
    found = json.loads(run("conditions", "--json").stdout)
    assert [each["subject"] for each in found] == ["broker-2"]


def test_status_shows_what_is_wrong_and_counts_the_effects_of_limits(
    run: Run, world: World
) -> None:
    """A silent bus is among its troubles already."""
    world.watch.conditions = Conditions.of(
        [
            Condition(ConditionKind.BUS_SILENT, "broker-1", "it hears nothing"),
            Condition(ConditionKind.BACKLOG_AGES, "broker-1 t", "a message of t has waited"),
            Condition(ConditionKind.THROTTLED, "orders", "clients of orders wait"),
        ]
    )
    shown = run("status").stdout

    assert "  warning: a message of t has waited\n" in shown
    assert "  1 more condition: pulsar-quota conditions\n" in shown
    assert "it hears nothing" not in shown
    listed = json.loads(run("status", "--json").stdout)["conditions"]
    assert [each["condition"] for each in listed] == ["BacklogAges", "BusSilent", "Throttled"]

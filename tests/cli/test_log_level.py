"""``pulsar-quota log-level``."""

from __future__ import annotations

import json

from tests.admin_api.world import World
from tests.cli.conftest import Run


def test_the_level_is_shown_and_set(run: Run, world: World) -> None:
    """The output is text or JSON."""
    assert run("log-level").stdout == "info\n"
    assert run("log-level", "debug").stdout == "debug\n"
    assert world.log_level.name == "debug"
    assert json.loads(run("log-level", "--json").stdout) == {"level": "debug"}


def test_a_level_that_does_not_exist_is_wrong_use(run: Run, world: World) -> None:
    """The ones that do are named."""
    refused = run("log-level", "loud")

    assert refused.exit_code == 2
    assert "debug, info, warning, error" in refused.stderr
    assert world.log_level.name == "info"

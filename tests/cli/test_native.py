"""``native show``, and the form of what ``native off`` prints."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from admin_api.routes import pages
from coordinator.config import Config
from coordinator.native.engine.conditions import NativeCondition
from tests.admin_api.world import FixedNative, World, app_of
from tests.cli.conftest import InProcess, Run
from tests.native.engine.test_views import state

NO_TOPIC = NativeCondition("topic", "entries cannot be written: gone", "let it produce there")


def steered(world: World) -> InProcess:
    """A sidecar that steers its broker's limiter, and cannot write at this moment."""
    said = replace(state(), conditions=(NO_TOPIC,), limited_topics=1)
    world.app = app_of(replace(world.backend, native=FixedNative(said)))
    return InProcess(world)


def test_entries_are_shown_with_what_keeps_them_from_being_exact(run: Run, world: World) -> None:
    """Half of 3,000/s for two seconds, and the other half for the other broker, of which none wrote."""
    shown = run("native", "show", carrier=steered(world))

    assert shown.exit_code == 0, shown.output
    path, group, topics, condition, fix = shown.stdout.splitlines()
    assert path == "path native, as pulsar://a:6650"
    assert group.startswith("g: entry 3,000 messages and 0 bytes, rest ")
    assert topics == "1 topic with limits of their own, in force at all brokers"
    assert (condition, fix) == (
        "topic: entries cannot be written: gone",
        "  -> let it produce there",
    )


def test_json_is_what_the_api_says(run: Run, world: World) -> None:
    """The record as it should be, which is not limited in bytes, and parts from 0 to 1."""
    told = json.loads(run("native", "show", "--json", carrier=steered(world)).stdout)

    (group,) = told["groups"]
    assert group["record"] == {"messages": 2_000, "bytes": -1}
    assert group["trimShare"] == {"messages": 1.0, "bytes": 1.0}
    assert (told["intervalSeconds"], told["conditions"][0]["code"]) == (2, "topic")


def test_all_pages_of_groups_are_shown(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API tells some at a time."""
    monkeypatch.setattr(pages, "MAX_ROWS", 2)
    (view,) = state().groups
    views = [replace(view, name=f"g{number}") for number in range(5)]
    native = FixedNative(replace(state(), groups=tuple(views)))
    world.app = app_of(replace(world.backend, native=native))

    told = json.loads(run("native", "show", "--json", carrier=InProcess(world)).stdout)

    assert [each["name"] for each in told["groups"]] == ["g0", "g1", "g2", "g3", "g4"]


def test_without_native_enforcement_there_is_only_the_path(run: Run) -> None:
    """The gate holds traffic back."""
    assert run("native", "show").stdout == (
        "path gate: the sidecar's own gate holds limits, and no limiter of the broker is steered\n"
    )


@pytest.fixture
def set_back() -> Iterator[None]:
    """The next test logs as if nothing had been configured."""
    handlers = list(logging.getLogger().handlers)
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


@pytest.mark.usefixtures("set_back")
def test_off_prints_its_outcome_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its parts log to standard error, and warnings alone."""

    async def off(_: Config) -> list[str]:
        structlog.get_logger().info("connected")
        structlog.get_logger().warning("slow")
        return ["orders set to 300 msg/s and -1 B/s"]

    monkeypatch.setattr("coordinator.cli.native._off", off)
    file = tmp_path / "sidecar.toml"
    file.write_text(run("config", "example").stdout)

    done = run("native", "off", "--config", str(file), "--json")

    assert json.loads(done.stdout) == {"done": ["orders set to 300 msg/s and -1 B/s"]}
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["slow"]

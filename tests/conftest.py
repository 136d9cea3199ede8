"""Fixtures of all tests: one real cluster and its sidecars, started by the first test that needs them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pulsar
import pytest
from hypothesis import Phase, settings

from deploy.chaos import LISTENERS
from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from tests.pulsar_version import pulsar_version
from tests.rooms import ON_JAVA, SERVICES_ALONE, WITH_CLUSTER
from tests.verify.plugin import MEASURED
from tests.verify.rooms import room_of

Connect = Callable[[str], pulsar.Client]
Figure = Callable[[str, str], None]

RUNNING_CLUSTER = "PULSAR_QUOTA_TEST_CLUSTER"
"""Environment variable: state directory of a cluster to use instead of starting one.

`python -m deploy.local up` with a ``--listener`` for each of `LISTENERS` makes one.
"""

# The same examples in every run: what lands does not depend on luck. `make fuzz` looks for others.
settings.register_profile(
    "default", deadline=None, derandomize=True, database=None, max_examples=50
)
# A mutant is noticed or not: no search for the smallest example that fails.
settings.register_profile(
    "mutants", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("default")


def pytest_configure() -> None:
    """Refuse a version of Pulsar that is not tried before the first test, whatever the tests are."""
    pulsar_version()


def _is_in(item: pytest.Item, folders: Sequence[str]) -> bool:
    return item.nodeid.startswith(tuple(f"{folder}/" for folder in folders))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark the tests that share a Spark session, and run those that share sidecars after all others.

    Spark runs on Java. The shared sidecars have the ports of those that other tests start, and then run
    to the end.

    Raises:
        UsageError: `python -m tests` or `python -m tests.verify` would not find a test.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.java)
        if item.get_closest_marker("verify"):
            if room_of(item.nodeid) is None:
                raise pytest.UsageError(f"{item.nodeid}: no room of tests/verify/rooms.py has it")
            continue
        if item.get_closest_marker("cluster"):
            rooms = WITH_CLUSTER
        elif item.get_closest_marker("java"):
            rooms = ON_JAVA
        elif _is_in(item, SERVICES_ALONE):
            raise pytest.UsageError(
                f"{item.nodeid}: it needs no cluster, so it is in another folder"
            )
        else:
            continue
        if not _is_in(item, rooms):
            raise pytest.UsageError(f"{item.nodeid}: tests/rooms.py does not name its folder")
    yield
    items.sort(key=lambda item: "sidecars" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster of three brokers.

    The transport of Pulsar's own resource groups is on, so that its reports can be compared with ours;
    it does nothing as long as no group of Pulsar's own is used.
    """
    running = os.environ.get(RUNNING_CLUSTER)
    if running:
        yield Cluster(Path(running))
        return
    options = ClusterOptions(
        state_dir=tmp_path_factory.mktemp("cluster"),
        pulsar=pulsar_version(),
        own_resource_groups=True,
        resource_group_interval_s=1,
        listeners=LISTENERS,
        quick=True,
        # A broker looks at backlogs when a test asks it to, not once a minute in between.
        broker_settings={
            "backlogQuotaCheckEnabled": "false",
            "preciseTimeBasedBacklogQuotaCheck": "true",
        },
    )
    with Cluster.start(options) as started:
        yield started


@pytest.fixture(scope="session")
def sidecars(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecars]:
    """A sidecar beside every broker, from the first test that needs one to the end of all."""
    with Sidecars(cluster, tmp_path_factory.mktemp("sidecars")) as sidecars:
        sidecars.start()
        yield sidecars


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Notes what a test measured for a row of the source documents (tests/seeds/rows.toml)."""

    def note(row: str, measured: str) -> None:
        record_property(row, measured)

    return note


class Measure(Protocol):
    """Notes a figure and its bounds; the test goes on, and fails at its end if the figure is outside."""

    def __call__(
        self,
        name: str,
        value: float,
        unit: str = "",
        *,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> None: ...


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Iterator[Measure]:
    """Notes what a test of `make verify` measures: a row each."""
    missed = []

    def note(
        name: str,
        value: float,
        unit: str = "",
        *,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> None:
        row = {"name": name, "value": value, "unit": unit, "least": least, "most": most}
        record_property(MEASURED, row)
        if not least <= value <= most:
            missed.append(row)

    yield note
    assert not missed


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes clients, and closes them after the test."""
    clients: list[pulsar.Client] = []

    def make(service_url: str) -> pulsar.Client:
        clients.append(quiet_client(service_url))
        return clients[-1]

    yield make
    for client in clients:
        client.close()

"""The laws in three real sidecars, to the message, with the numbers that their own authors worked out.

Gates count what a script says (scripted_sidecar.py); reports, membership, store and API are real. So a
local limit is exactly what the law gives, however busy the machine is; what real clients then get is
measured in test_laws.py. The laws of use stand under the policy `eager`: under `balanced` no broker
raises before another one has lowered, and a broker that steals could never begin.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.integration.world import eventually, wait_until_known

pytestmark = pytest.mark.cluster

BROKERS = ("broker-1", "broker-2", "broker-3")
ROUNDS = 2
"""The number of rounds for which the limits must stay."""

_PROGRAM = Path(__file__).with_name("scripted_sidecar.py")
_numbers = itertools.count()


class ScriptedGroup:
    """A group whose traffic is scripted.

    Args:
        sidecars: with scripted gates.
        script: the file that they read.
        http: asks them.
        monitoring_class: of the traffic.
    """

    def __init__(
        self, sidecars: Sidecars, script: Path, http: httpx.Client, monitoring_class: str
    ) -> None:
        self._sidecars, self._script, self._http = sidecars, script, http
        self._class = monitoring_class
        self.name = f"scripted-{next(_numbers)}"

    def limit(self, limit: int, **settings: object) -> None:
        """Create or change the group; a new one is then known to every sidecar."""
        body = {f"{self._class.lower()}RateInMsgs": limit, **settings}
        url = f"{self._sidecars.admin_url('broker-1')}/admin/v2/resourcegroups/{self.name}"
        self._http.put(url, json=body).raise_for_status()
        wait_until_known(self.name, BROKERS, self._sidecars, self._http)

    def wants(self, *demands: int) -> None:
        """Have each broker's clients want this many messages a second; the last may have none."""
        wanted = dict(zip(BROKERS, demands, strict=False))
        write(
            self._script,
            {name: {self.name: {self._class: demand}} for name, demand in wanted.items()},
        )

    def has(self, *expected: int) -> None:
        """Wait until the local limits are these, and see that they stay."""
        eventually(
            lambda: self._local_limits() == list(expected),
            f"{list(expected)} of {self.name}",
            last=self._local_limits,
        )
        rounds = self._rounds()
        eventually(
            lambda: all(now >= at + ROUNDS for now, at in zip(self._rounds(), rounds, strict=True)),
            "some more rounds",
        )
        assert self._local_limits() == list(expected)

    def _local_limits(self) -> list[int]:
        """Each broker's local limit, as its own sidecar has it."""
        limits = []
        for broker in BROKERS:
            rows = self._get(broker, f"/quota/v1/usage/{self.name}")["brokers"]
            own = next(row["limits"] for row in rows if row["broker"] == broker)
            limits.append(own[f"{self._class.lower()}RateInMsgs"])
        return limits

    def _rounds(self) -> Sequence[int]:
        return [self._get(broker, "/quota/v1/health")["round"] for broker in BROKERS]

    def _get(self, broker: str, path: str) -> Any:
        return self._http.get(self._sidecars.admin_url(broker) + path).raise_for_status().json()


def write(script: Path, demands: Mapping[str, object]) -> None:
    """Write the whole script at once."""
    partial = script.with_suffix(".partial")
    partial.write_text(json.dumps(demands), encoding="utf-8")
    partial.replace(script)


@pytest.fixture(scope="module")
def made(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], ScriptedGroup]]:
    """Makes groups of sidecars with scripted gates."""
    directory = tmp_path_factory.mktemp("scripted")
    script = directory / "script.json"
    write(script, {})
    with (
        Sidecars(cluster, directory, program=(str(_PROGRAM),)) as own,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        own.start()
        yield lambda monitoring_class: ScriptedGroup(own, script, http, monitoring_class)


@pytest.fixture
def group(
    made: Callable[[str], ScriptedGroup], request: pytest.FixtureRequest
) -> Iterator[ScriptedGroup]:
    """A group of publishers, or of what a test asks for."""
    group = made(getattr(request, "param", "Publish"))
    yield group
    group.wants()


@pytest.mark.shows(
    "pip-82/equal-residual",
    "pip-82/proportional",
    "pip-82/steal-n",
    "pip-82/over-quota",
    "service-cluster/remaining",
)
def test_every_law_gives_what_its_authors_worked_out(group: ScriptedGroup) -> None:
    """10, 50 and 30 of 100, and one law after the other."""
    group.limit(100, law="equal-residual", overshootPolicy="eager")
    group.wants(10, 50, 30)
    group.has(20, 60, 40)
    group.limit(100, law="proportional")
    group.has(11, 56, 33)
    group.limit(100, law="pulsar")
    group.has(11, 55, 33)
    group.limit(100, law="steal")
    group.has(34, 56, 33)
    group.limit(100, law="static")
    group.has(34, 33, 33)
    group.limit(100, law="max-min")
    group.has(14, 53, 33)
    # Observed, so that use stays above the quota: enforced, the next round finds no excess.
    group.limit(50, law="equal-residual", enforcement="observe")
    group.has(5, 28, 17)
    # The service's example has five brokers with 150 of 1,000: 750 together. Here three use 750.
    group.limit(1000, law="tdmq", enforcement="enforce")
    group.wants(150, 300, 300)
    group.has(400, 550, 550)


@pytest.mark.shows(
    "pip-82/steal-half-way",
    "pip-82/steal-gives-way",
    "pip-82/not-under-utilised",
    "pip-82/fair-allocation",
)
def test_stealing_and_max_min_come_to_what_pip_82_says(group: ScriptedGroup) -> None:
    """80 and 20 of 100, then 70 and 30, and 70 wanted by each."""
    group.limit(100, law="steal", overshootPolicy="eager")
    group.wants(140, 20)
    group.has(80, 50, 0)
    group.wants(140, 30)
    group.has(70, 50, 0)
    group.wants(140, 20)
    group.has(80, 50, 0)
    group.wants(70, 70)
    group.has(50, 50, 0)


@pytest.mark.parametrize("group", ["Publish", "Dispatch"], indirect=True)
def test_a_limit_is_shared_by_demand_to_the_message(group: ScriptedGroup) -> None:
    """600 in thirds, by what is left of one that wants little, and among those that are there."""
    group.limit(600)
    group.wants(900, 900, 900)
    group.has(200, 200, 200)
    group.wants(900, 900)
    group.has(300, 299, 1)

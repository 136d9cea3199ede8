"""Many groups at once under native enforcement: each has its own limit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.integration.native_world import Native, opened
from tests.integration.steady import Steady
from tests.integration.world import eventually

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.own_cluster,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.verify,
]

GROUPS = int(os.environ.get("GROUPS_AT_ONCE", "20"))
"""The number of groups; two hundred take ten minutes, so this environment variable asks for them."""

_LIMITS = (20, 30, 40)
_OFFERED = 60
_QUEUE = 100
"""For each topic: a second of what it may be limited to is under way, whatever its broker holds back."""

_WINDOW_S = 15.0
_OVER = 1.05
#: Brokers without a client keep 1/s each, and Pulsar cuts a quota off to a whole number before the bucket
#: at each interval doubles it.
_KEPT = 5


def test_each_of_many_groups_is_held_to_its_own_limit(tmp_path: Path) -> None:
    """Each has a namespace of its own and more than its limit to publish, all at the same time."""
    with opened(tmp_path) as native:
        limits = {f"many-{n:03}": _LIMITS[n % len(_LIMITS)] for n in range(GROUPS)}
        for name, limit in limits.items():
            make(native, name, limit)
        topics = {name: f"persistent://native/{name}/t" for name in limits}
        eventually(lambda: attached(native, limits), "every namespace is attached", 120.0)
        with load(native, list(topics.values())):
            time.sleep(_WINDOW_S)
            rates = measured(native, topics)
    wrong = {
        name: (rate, limits[name])
        for name, rate in rates.items()
        if not limits[name] - _KEPT <= rate <= limits[name] * _OVER
    }
    assert not wrong, f"{len(wrong)} of {GROUPS}: {wrong}"


def make(native: Native, name: str, limit: int) -> None:
    """Make a group and a namespace that counts against it."""
    native.topics.create_namespace(f"native/{name}", 1)
    url = native.sidecars.admin_url("broker-1")
    group = {"publishRateInMsgs": limit}
    native.http.put(f"{url}/admin/v2/resourcegroups/{name}", json=group).raise_for_status()
    path = f"/admin/v2/namespaces/native/{name}/resourcegroup/{name}"
    native.http.post(f"{url}{path}").raise_for_status()


def attached(native: Native, names: Iterable[str]) -> bool:
    """Whether Pulsar has every group, and has attached its namespace to it."""
    admin = f"{native.cluster.web_url()}/admin/v2"
    return all(
        native.http.get(f"{admin}/resourcegroups/{name}").is_success
        and name in native.http.get(f"{admin}/namespaces/native/{name}/resourcegroup").text
        for name in names
    )


@contextmanager
def load(native: Native, topics: list[str]) -> Iterator[None]:
    """One client that publishes to all of them."""
    sizes = dict.fromkeys(topics, 20)
    with Steady(native.service_url("broker-1"), sizes, queue=_QUEUE, clients=0) as steady:
        steady.offers(dict.fromkeys(topics, _OFFERED))
        yield


def measured(native: Native, topics: Mapping[str, str]) -> dict[str, float]:
    """Messages per second of each topic over a window, by its broker's counter."""
    before = counted(native, topics)
    time.sleep(_WINDOW_S)
    after = counted(native, topics)
    return {
        name: (after[name][0] - before[name][0]) / (after[name][1] - before[name][1])
        for name in topics
    }


def counted(native: Native, topics: Mapping[str, str]) -> dict[str, tuple[int, float]]:
    """Each topic's count and when it was read."""
    found = {}
    with httpx.Client(
        base_url=native.cluster.web_url(), follow_redirects=True, timeout=30.0
    ) as http:
        for name, topic in topics.items():
            path = topic.replace("://", "/")
            asked_s = time.monotonic()
            stats = http.get(f"/admin/v2/{path}/stats").raise_for_status().json()
            found[name] = stats["msgInCounter"], (asked_s + time.monotonic()) / 2
    return found

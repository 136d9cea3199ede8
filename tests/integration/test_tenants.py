"""One group for a tenant, a namespace and a namespace that was made with it: all of them share its limit.

A producer takes part at a broker as long as it is connected; each broker's sum of its topics and
partitions is what all sidecars know of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.conftest import Figure, Measure
from tests.integration.sliding import Counted
from tests.integration.steady import Steady
from tests.integration.windows import hold, windows
from tests.integration.world import World, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

LIMIT = 600
BROKERS = ("broker-1", "broker-2", "broker-3")


def api(world: World, method: str, path: str, body: object = None, at: str = "broker-3") -> str:
    """Ask a sidecar, and return what it answers."""
    answer = world.http.request(method, world.sidecars.admin_url(at) + path, json=body)
    answer.raise_for_status()
    return answer.text


def at_broker(world: World, broker: str, topic: str) -> str:
    """Let a broker serve a topic; one that has just come back is given no bundle by itself."""
    (destination,) = (each for each in world.cluster.brokers if each.name == broker)
    world.topics.move(topic, destination)
    return topic


def partition_at(world: World, broker: str, namespace: str) -> str:
    """A partition of a topic with two, at this broker."""
    path = f"persistent/{namespace}/parts"
    url = f"{world.cluster.web_url()}/admin/v2/{path}/partitions"
    world.http.put(url, json=2).raise_for_status()
    return at_broker(world, broker, f"{path.replace('/', '://', 1)}-partition-0")


@pytest.mark.shows(
    "pip-82/tenant-limit",
    "pip-82/all-attached",
    "pip-82/attach-tenant",
    "pip-82/group-in-namespace-put",
    "pip-82/aggregate",
    "pip-82/usage-map",
    "pip-82/inside-a-broker",
    "pip-82/not-even-inside",
    "pip-82/zero-usage",
    "pip-82/no-zookeeper-traffic",
)
def test_a_tenant_and_all_that_is_attached_share_one_limit(
    world: World, measured: Measure, figure: Figure
) -> None:
    """Two namespaces by their tenant, one attached by itself, and one by the PUT that made it: 600."""
    tenant, made = f"{world.group}-tenant", f"{world.namespace}-made"
    world.topics.create_tenant(tenant)
    for name in ("a", "b"):
        world.topics.create_namespace(f"{tenant}/{name}", bundles=12)
    world.limit(publishRateInMsgs=LIMIT)
    attachment = f"/admin/v2/tenants/{tenant}/resourcegroup"
    assert api(world, "GET", attachment) == ""
    api(world, "PUT", f"{attachment}/{world.group}")
    body = {"bundles": {"numBundles": 12}, "resource_group_name": world.group}
    api(world, "PUT", f"/admin/v2/namespaces/{made}", body)
    paths = attachment, f"/admin/v2/namespaces/{made}/resourcegroup"
    eventually(
        lambda: (
            {api(world, "GET", path, at="broker-1").strip('"') for path in paths} == {world.group}
        ),
        "another sidecar hears of both",
    )

    topics = {
        "tenant a": at_broker(world, "broker-1", f"persistent://{tenant}/a/t"),
        "tenant b": at_broker(world, "broker-2", f"persistent://{tenant}/b/t"),
        "made": partition_at(world, "broker-2", made),
        "attached": world.topic_of["broker-3"],
    }
    leaving = topics["attached"]
    with Steady(
        world.sidecars.service_url,
        {t: 100 for t in topics.values() if t != leaving},
        arrears_s=1.0,
    ) as load:
        with Steady(world.sidecars.service_url, {leaving: 100}) as other:
            load.offers({topic: 500 for topic in topics.values() if topic != leaving})
            other.offers({leaving: 500})
            passed = pass_at(world, measured, topics, (200, 100, 100, 200))
            told = ", ".join(f"{name} {rate:,.0f}" for name, rate in passed.items())
            figure("pip-82/all-attached", f"{sum(passed.values()):,.0f} of {LIMIT}: {told}")
            figure("pip-82/inside-a-broker", f"{passed['tenant b']:,.0f} and {passed['made']:,.0f}")
            check_maps(world, passed)
            check_zookeeper(world)
        eventually(
            lambda: all(claimants(world, at) == {"broker-1", "broker-2"} for at in BROKERS),
            "every sidecar has removed the broker that has no use any more",
        )
        left = {name: topic for name, topic in topics.items() if topic != leaving}
        passed = pass_at(world, measured, left, (300, 150, 150))
        figure("pip-82/zero-usage", f"then {sum(passed.values()):,.0f} of the two brokers left")
        load.offers({topics["made"]: 60})
        passed = pass_at(world, measured, left, (300, 240, 60))
        told = f"{passed['tenant b']:,.0f} and {passed['made']:,.0f}, which offers 60"
        figure("pip-82/not-even-inside", told)

    api(world, "DELETE", attachment)
    eventually(
        lambda: api(world, "GET", attachment, at="broker-2") == "", "the other sidecars hear of it"
    )


def pass_at(
    world: World, measured: Measure, topics: Mapping[str, str], expected: tuple[float, ...]
) -> dict[str, float]:
    """Wait until these topics pass about these rates, hold three windows to them; return the means."""

    def counted() -> Counted:
        found = {name: world.counted(topic) for name, topic in topics.items()}
        return {name: (each.messages_in, at_s) for name, (each, at_s) in found.items()}

    wanted = dict(zip(topics, expected, strict=True))
    eventually(
        lambda: windows(counted, 2, 1)[0] == pytest.approx(wanted, rel=0.1), f"about {wanted}"
    )
    seen = windows(counted, 5)
    hold(measured, f"{len(topics)} topics of {sum(expected):.0f}", seen, wanted)
    return {name: fmean(each[name] for each in seen) for name in topics}


def check_maps(world: World, passed: Mapping[str, float]) -> None:
    """Every sidecar's usage of a broker is the sum of its topics, by the broker's counters."""
    sums = {
        "broker-1": passed["tenant a"],
        "broker-2": passed["tenant b"] + passed["made"],
        "broker-3": passed["attached"],
    }
    seen: dict[tuple[str, str], list[int]] = {(at, of): [] for at in BROKERS for of in BROKERS}

    def agree() -> bool:
        """A round is off by the messages of its edges, their mean is not."""
        for at in BROKERS:
            for row in world.get(f"/quota/v1/usage/{world.group}", at=at)["brokers"]:
                found = seen[at, row["broker"]]
                found.append(row["admitted"]["publishRateInMsgs"])
                del found[:-60]
                assert row["topics"] == (2 if row["broker"] == "broker-2" else 1)
        return all(
            len(each) > 20 and fmean(each) == pytest.approx(sums[of], rel=0.03)
            for (_, of), each in seen.items()
        )

    eventually(agree, f"every sidecar knows that {sums}")


def claimants(world: World, at: str) -> set[str]:
    """The brokers in a sidecar's map of the group."""
    wants = world.get(f"/quota/v1/explain/{world.group}", at=at)["wants"]
    return {want["broker"] for want in wants}


def check_zookeeper(world: World) -> None:
    """While usage is exchanged round by round, none of the sidecars' nodes changes."""
    zookeeper = KazooClient(world.cluster.state.zookeeper_connect)
    zookeeper.start()

    def changes() -> dict[str, int]:
        found = {}
        paths = ["/pulsar-quota"]
        while paths:
            path = paths.pop()
            try:
                children = zookeeper.get_children(path)
                _, stat = zookeeper.get(path)
            except NoNodeError:
                continue
            found[path] = stat.mzxid
            paths += [f"{path}/{child}" for child in children]
        return found

    def is_quiet() -> bool:
        """A change of a group is written once more when it has settled."""
        before, rounds = changes(), world.get("/quota/v1/health")["round"]
        eventually(lambda: world.get("/quota/v1/health")["round"] >= rounds + 4, "four rounds")
        return changes() == before

    try:
        eventually(is_quiet, "four rounds of reports without a change in ZooKeeper")
    finally:
        zookeeper.stop()
        zookeeper.close()

"""Replication to remote clusters held by Pulsar's own rates: two real clusters, nothing between."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pulsar
import pytest

from coordinator.native.engine.rate_policy import REPLICATION
from deploy.local.cluster import Cluster
from deploy.local.errors import AdminRestError
from deploy.local.layout import ClusterOptions
from deploy.local.topics import Topics, path_of
from tests.integration.native_clients import NativeClients, client_of
from tests.integration.native_world import Native, opened
from tests.integration.sliding import Counted, come_to
from tests.integration.world import eventually
from tests.pulsar_version import pulsar_version

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

LIMIT = 600
NAMESPACE = "native/replicated"
SIZE = 131
"""Bytes of a message in the tests, as a broker stores it."""

_CURSOR = "pulsar.repl"

SET = 50
"""A rate that an operator has set."""

REMOTES = ("west", "east")
"""Two names of the other cluster: brokers replicate to each by itself."""


class Replicated(NativeClients):
    """A namespace that is replicated, and its clients.

    Args:
        native: the brokers and their sidecars.
        client: of these.
        remote: the topics of the cluster that they replicate to.
    """

    def __init__(self, native: Native, client: pulsar.Client, remote: Topics) -> None:
        super().__init__(native, client)
        self.remote = remote

    def limit(self, cluster: str, group: str, messages: int, size: int = -1) -> None:
        """Limit what is replicated to a cluster, per second; -1 is no limit."""
        limits = {"dispatchRateInMsgs": messages, "dispatchRateInBytes": size}
        self.native.api("PUT", f"/admin/v2/resourcegroups/{group}", limits)
        self.native.api("PUT", f"/quota/v1/clusters/{cluster}/replication/resourcegroup/{group}")

    def free(self, cluster: str) -> None:
        """Limit it no more."""
        self.native.api("DELETE", f"/quota/v1/clusters/{cluster}/replication/resourcegroup")

    def counted(self, *topics: str) -> Counted:
        """The messages of these topics that the other cluster has."""
        found = {}
        for topic in topics:
            asked_s = time.monotonic()
            count = self.remote.counters(topic).messages_in
            found[topic] = count, (asked_s + time.monotonic()) / 2
        return found

    def comes_to(self, wanted: Mapping[str, float], within: float) -> None:
        """Wait until messages of each topic arrive there at this rate, over ten seconds."""
        come_to(lambda: self.counted(*wanted), wanted, within)

    def come_to_together(self, topics: Sequence[str], messages: float, within: float) -> None:
        """Wait until messages of all these topics arrive there at this rate, over ten seconds."""

        def counted() -> Counted:
            found = self.counted(*topics).values()
            return {"all": (sum(count for count, _ in found), time.monotonic())}

        come_to(counted, {"all": messages}, within)

    def sent_to_each(self, topic: str, seconds: float) -> dict[str, float]:
        """Entries per second that each cluster has taken."""

        def sent() -> dict[str, int]:
            found = json.loads(self.native.topics.ask("GET", f"/admin/v2/{path_of(topic)}/stats"))
            return {name: each["msgOutCount"] for name, each in found["replication"].items()}

        before, began_s = sent(), time.monotonic()
        time.sleep(seconds)
        after, took_s = sent(), time.monotonic() - began_s
        return {name: (after[name] - count) / took_s for name, count in before.items()}

    def sends(self, topic: str, wanted: Mapping[str, float]) -> None:
        """Wait until each cluster takes entries of a topic at this rate, within 6 % over 20 s."""
        last: dict[str, float] = {}

        def is_so() -> bool:
            last.update(self.sent_to_each(topic, 20.0))
            return last == pytest.approx(dict(wanted), rel=0.06)

        eventually(is_so, f"{wanted} are sent", last=lambda: last)

    def skip_backlogs(self) -> None:
        """Skip all that is still to be replicated; a replicator that ends just now has nothing left."""
        ask = self.native.topics.ask
        for topic in json.loads(ask("GET", f"/admin/v2/persistent/{NAMESPACE}")):
            path = f"/admin/v2/{path_of(quote(topic, safe=':/'))}"
            for name in json.loads(ask("GET", f"{path}/stats"))["replication"]:
                with suppress(AdminRestError):
                    ask("POST", f"{path}/subscription/{_CURSOR}.{name}/skip_all")

    @contextmanager
    def replicated_to(self, *clusters: str) -> Iterator[None]:
        """The namespace is replicated to these clusters, and then to the first one again."""
        self._replicate_to(clusters)
        try:
            yield
        finally:
            self._replicate_to(clusters[:1])

    def _replicate_to(self, clusters: Sequence[str]) -> None:
        known = json.loads(self.native.topics.ask("GET", "/admin/v2/clusters"))
        local = [name for name in known if name not in ("global", *REMOTES)]
        path = f"/admin/v2/namespaces/{NAMESPACE}/replication"
        self.native.topics.ask("POST", path, [*local, *clusters])

    def one_each(self, prefix: str) -> list[str]:
        """A topic at each broker."""
        found = self.native.topics.one_for_each_broker(NAMESPACE, prefix, "persistent")
        return list(found.values())


def replicate(native: Native, remote: Cluster) -> None:
    """Let the namespace be replicated to the other cluster, under each of its names."""
    there = Topics(remote.brokers)
    there.create_tenant("native")
    there.create_namespace(NAMESPACE, 4)
    here = native.topics
    for name in REMOTES:
        urls = {
            "serviceUrl": remote.web_url(),
            "brokerServiceUrl": f"pulsar://127.0.0.1:{remote.brokers[0].broker_port}",
        }
        here.ask("PUT", f"/admin/v2/clusters/{name}", urls)
    known = json.loads(here.ask("GET", "/admin/v2/clusters"))
    allowed = [name for name in known if name != "global"]
    here.ask("POST", "/admin/v2/tenants/native", {"allowedClusters": allowed, "adminRoles": []})
    here.create_namespace(NAMESPACE, 12)
    local = [name for name in allowed if name not in REMOTES]
    here.ask("POST", f"/admin/v2/namespaces/{NAMESPACE}/replication", [*local, "west"])


@contextmanager
def two_clusters(directory: Path, version: str) -> Iterator[tuple[Native, Cluster]]:
    """Three brokers with a native sidecar beside each, and the cluster that they replicate to."""
    with ExitStack() as stack:
        (directory / "remote").mkdir()
        (directory / "native").mkdir()
        options = ClusterOptions(
            state_dir=directory / "remote", brokers=1, pulsar=version, quick=True
        )
        remote = stack.enter_context(Cluster.start(options))
        native = stack.enter_context(opened(directory / "native", pulsar=version))
        replicate(native, remote)
        yield native, remote


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Native, Cluster]]:
    """Both, of the version that tests run on."""
    with two_clusters(tmp_path_factory.mktemp("replication"), pulsar_version()) as found:
        yield found


@pytest.fixture
def replicated(clusters: tuple[Native, Cluster]) -> Iterator[Replicated]:
    """The replicated namespace, without a limit at the end."""
    native, remote = clusters
    with client_of(native) as client:
        found = Replicated(native, client, Topics(remote.brokers))
        yield found
        for name in REMOTES:
            found.free(name)
        found.skip_backlogs()


def test_a_limit_is_shared_by_brokers_and_goes_where_there_is_something_to_send(
    replicated: Replicated,
) -> None:
    """Each gets its third; what is attached no more has no rate left, and all of it is sent."""
    topics = replicated.one_each("shared")
    replicated.limit("west", "to-west", LIMIT)
    replicated.fill(topics, 20_000, names=())
    replicated.comes_to(dict.fromkeys(topics, LIMIT / 3), within=0.03)
    replicated.limit("west", "to-west", LIMIT // 2)
    replicated.comes_to(dict.fromkeys(topics, LIMIT / 6), within=0.03)
    replicated.free("west")
    eventually(
        lambda: [replicated.policy_of(topic, REPLICATION) for topic in topics] == [None] * 3,
        "no rate is left",
    )
    eventually(
        lambda: all(count == 20_000 for count, _ in replicated.counted(*topics).values()),
        "all have arrived, once",
    )


def test_batches_count_by_their_messages(replicated: Replicated) -> None:
    """Pulsar counts a batch of fifty as one; a limit in bytes needs no conversion."""
    (topic, other, _) = replicated.one_each("batches")
    replicated.limit("west", "to-west", LIMIT)
    replicated.fill([topic], 40_000, batch=50, names=())
    replicated.comes_to({topic: LIMIT}, within=0.06)
    replicated.limit("west", "to-west", -1, 200 * SIZE)
    replicated.skip_backlogs()
    replicated.fill([other], 6_000, names=())
    replicated.comes_to({other: 200}, within=0.06)


def test_a_topic_of_two_clusters_has_the_lower_of_their_rates(replicated: Replicated) -> None:
    """Pulsar has one rate for both; the other one is in force as soon as the lower one is gone."""
    topic = replicated.one_each("both")[0]
    replicated.limit("west", "to-west", LIMIT)
    replicated.limit("east", "to-east", SET)
    with replicated.replicated_to("west", "east"):
        replicated.fill([topic], 20_000, names=())
        replicated.sends(topic, {"west": SET, "east": SET})
        replicated.free("east")
        eventually(lambda: replicated.sent_to_each(topic, 5.0)["west"] > LIMIT * 0.9, "one is left")
        replicated.free("west")
        eventually(lambda: replicated.policy_of(topic, REPLICATION) is None, "no rate is left")


def test_what_an_operator_has_set_stays_the_most_and_comes_back(replicated: Replicated) -> None:
    """Sidecars that are killed meanwhile go on; when all are stopped, `native off` gives it back."""
    own, other, _ = replicated.one_each("set")
    replicated.set_policy(own, REPLICATION, SET)
    replicated.limit("west", "to-west", LIMIT)
    replicated.fill([own], 6_000, names=())
    replicated.fill([other], 60_000, names=())
    wanted = {own: SET, other: LIMIT - SET}
    replicated.comes_to(wanted, within=0.05)
    sidecars = replicated.native.sidecars
    for broker in ("broker-1", "broker-2", "broker-3"):
        sidecars.end(broker, signal.SIGKILL)
    sidecars.start()
    replicated.comes_to(wanted, within=0.05)
    sidecars.stop()
    try:
        off = replicated.native.off()
        assert off.returncode == 0, off.stderr
        assert f"{NAMESPACE}: " in off.stdout
        assert replicated.policy_of(own, REPLICATION)[REPLICATION.messages] == SET
        assert replicated.policy_of(other, REPLICATION) is None
    finally:
        sidecars.start()


def test_topics_of_any_name_are_held_and_texts_beside_them_free_none(
    replicated: Replicated,
) -> None:
    """A client chooses the names of topics, and a tenant may write where former rates are kept."""
    names = ["a b#?%2F&x=1", "-->west", 'q"uo,topic="te{}', "\u00e4\u20ac"]
    topics = [f"persistent://{NAMESPACE}/{quote(name, safe='')}" for name in names]
    replicated.limit("west", "to-west", LIMIT)
    replicated.fill([f"persistent://{NAMESPACE}/{name}" for name in names], 12_000, names=())
    replicated.come_to_together(topics, LIMIT, within=0.05)
    for topic in topics:
        assert replicated.policy_of(topic, REPLICATION) is not None
        replicated.spoil_kept(topic, REPLICATION)
    replicated.come_to_together(topics, LIMIT, within=0.05)


@pytest.mark.parametrize("version", ["4.0.7", "5.0.0-M1"])
def test_a_release_that_stops_for_ever_when_it_is_held_back_is_left_alone(
    tmp_path: Path, version: str
) -> None:
    """All is replicated without a limit, no policy is written, and the sidecars say why."""
    with two_clusters(tmp_path, version) as (native, remote), client_of(native) as client:
        found = Replicated(native, client, Topics(remote.brokers))
        topic = found.one_each("old")[0]
        found.limit("west", "to-west", SET)
        eventually(lambda: "replication" in native.conditions(), "a condition tells it")
        assert version in native.conditions()["replication"]
        found.fill([topic], 5_000, names=())
        eventually(lambda: found.counted(topic)[topic][0] == 5_000, "all have arrived")
        assert found.policy_of(topic, REPLICATION) is None

"""The ways to a broker beside the gates' own clients: which are limited, and how others are seen.

The brokers judge tokens, and Pulsar's proxy may speak for its clients (proxyRoles). A request without a
token is the launcher's, a super-user; none of the clients here goes without one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pulsar
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as connect_websocket

from deploy.background import Background
from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from tests.admin_api.keys import SECRET, token
from tests.gate.server.test_tls import make_certificate
from tests.integration import companions
from tests.integration.functions import copying
from tests.integration.test_reconciliation import OFTEN, conditions, escaping, examined
from tests.integration.world import TENANT, World, eventually, make_world
from tests.pulsar_version import pulsar_version

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

LIMIT = 50
OFFERED = 200
UNDER_WAY = 10
TLS = "external+ssl"
_PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the gates' certificate, the key of tokens, and a super-user's token."""
    directory = tmp_path_factory.mktemp("files")
    make_certificate(directory, "gate")
    (directory / "secret").write_bytes(SECRET)
    (directory / "admin.token").write_text(token("admin"))
    return directory


@pytest.fixture(scope="module")
def judging(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that authenticates its clients, with WebSocket in its brokers."""
    settings = {
        **authentication(files),
        "authorizationEnabled": "true",
        "anonymousUserRole": "launcher",
        "superUserRoles": "admin,launcher",
        "proxyRoles": "proxy",
        "webSocketServiceEnabled": "true",
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{token('admin')}",
    }
    options = ClusterOptions(
        state_dir=tmp_path_factory.mktemp("cluster"),
        brokers=2,
        pulsar=pulsar_version(),
        broker_settings=settings,
        listeners=[TLS],
        quick=True,
    )
    with Cluster.start(options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ways(
    judging: Cluster, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A namespace that alice may publish to, limited, with a topic on each broker."""
    directory = tmp_path_factory.mktemp("sidecars")
    with (
        Sidecars(judging, directory) as sidecars,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        for broker in judging.brokers:
            sidecars.configure(
                broker.name,
                {
                    "bus_token_file": str(files / "admin.token"),
                    "broker_token_file": str(files / "admin.token"),
                    "gate_tls_listen": f"127.0.0.1:{broker.listener_ports[TLS]}",
                    "gate_tls_certificate_file": str(files / "certificate.pem"),
                    "gate_tls_key_file": str(files / "key.pem"),
                    **OFTEN,
                },
            )
        sidecars.start()
        world = make_world(judging, sidecars, http, f"{TENANT}/ways")
        for role in ("alice", "proxy", "websocket"):
            path = f"/admin/v2/namespaces/{world.namespace}/permissions/{role}"
            http.post(judging.web_url() + path, json=["produce", "consume"]).raise_for_status()
        # Of 50/s a bucket saves up two messages, which a machine that stands still for a moment loses.
        world.limit(publishRateInMsgs=LIMIT, burstSeconds=1)
        yield world


def authentication(files: Path) -> dict[str, str]:
    """The settings by which a broker, a proxy or a WebSocket service reads tokens."""
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": _PROVIDER,
        "tokenSecretKey": f"file://{files / 'secret'}",
    }


@contextmanager
def proxy_to(
    world: World, files: Path, directory: Path, settings: Mapping[str, object]
) -> Iterator[companions.Proxy]:
    """Pulsar's proxy with TLS for its clients, authenticated as ``proxy``."""
    own = {
        **authentication(files),
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{token('proxy')}",
        "tlsCertificateFilePath": str(files / "certificate.pem"),
        "tlsKeyFilePath": str(files / "key.pem"),
    }
    with companions.proxy(world.cluster, directory, own | dict(settings)) as proxy:
        yield proxy


def gate_settings(world: World, files: Path) -> dict[str, object]:
    """The documented settings of a proxy before gates that speak TLS."""
    ports = [str(broker.listener_ports[TLS]) for broker in world.cluster.brokers]
    return {
        "tlsEnabledWithBroker": True,
        "brokerServiceURLTLS": f"pulsar+ssl://127.0.0.1:{ports[0]}",
        "brokerProxyAllowedTargetPorts": ",".join(ports),
        "brokerClientTrustCertsFilePath": str(files / "certificate.pem"),
        "tlsHostnameVerificationEnabled": True,
        "checkActiveBrokers": False,
        # Read at the start, though no client here uses it.
        "brokerWebServiceURLTLS": "https://127.0.0.1:1",
    }


@contextmanager
def client_of(proxy: companions.Proxy, files: Path, role: str) -> Iterator[pulsar.Client]:
    """A stock client of a proxy, with TLS and a token."""
    client = quiet_client(
        f"pulsar+ssl://127.0.0.1:{proxy.tls_port}",
        authentication=pulsar.AuthenticationToken(token(role)),
        tls_trust_certs_file_path=str(files / "certificate.pem"),
        operation_timeout_seconds=10,
    )
    try:
        yield client
    finally:
        client.close()


class Publishing(Background):
    """Publishes at `OFFERED` per second, or as fast as receipts come."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        super().__init__({"publishing": self._publish})
        self._producer = client.create_producer(
            topic,
            batching_enabled=False,
            block_if_queue_full=True,
            max_pending_messages=20,
            send_timeout_millis=0,
        )

    def _publish(self) -> None:
        while not self._stop.wait(1 / OFFERED):
            self._producer.send_async(b"x" * 20, lambda *_: None)


class WebSocketPublishing(Background):
    """Publishes over WebSocket, `OFFERED` per second or as fast as acknowledgements come.

    Some messages are under way at any time, so that the limit is waited for and not the acknowledgement.
    """

    def __init__(self, port: int, topic: str, role: str = "alice") -> None:
        super().__init__({"publishing": self._publish})
        path = topic.replace("://", "/")
        self._socket = connect_websocket(
            f"ws://127.0.0.1:{port}/ws/v2/producer/{path}?maxPendingMessages={2 * UNDER_WAY}",
            additional_headers={"Authorization": f"Bearer {token(role)}"},
            proxy=None,
        )

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _publish(self) -> None:
        message = json.dumps({"payload": base64.b64encode(b"x" * 20).decode()})
        with self._socket as socket:
            for _ in range(UNDER_WAY):
                socket.send(message)
            while not self._stop.wait(1 / OFFERED):
                assert json.loads(socket.recv(timeout=30))["result"] == "ok"
                socket.send(message)


def refused(port: int, topic: str, role: str) -> bool:
    """Whether a WebSocket service says that a role may not publish."""
    try:
        WebSocketPublishing(port, topic, role).close()
    except InvalidStatus as error:
        return error.response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    return False


def held(world: World, name: str) -> None:
    """Wait until ten seconds of a broker's own counter are within 2 % of the limit."""
    world.comes_to(
        lambda rates: rates[name] == pytest.approx(LIMIT, rel=0.02), f"{LIMIT}/s", seconds=10.0
    )


def assert_told(world: World) -> None:
    """The traffic round the gate of broker-1 is told within ten seconds, and the doctor names it."""
    eventually(
        lambda: escaping(world) > 0 and bool(conditions(world)),
        "the traffic round the gate is told",
        timeout_s=10.0,
    )
    (sentence,) = examined(world)
    assert f"published to {world.namespace} go round the gate" in sentence


def over(world: World) -> None:
    """Wait until nothing goes round the gate any more."""
    eventually(lambda: not escaping(world), "nothing escapes any more", timeout_s=40.0)


def own_port(broker: Broker) -> str:
    """A broker's own port."""
    return f"pulsar://127.0.0.1:{broker.broker_port}"


def test_pulsars_proxy_before_gates_keeps_the_limit_and_its_clients_roles(
    ways: World, files: Path, tmp_path: Path
) -> None:
    """TLS to the proxy and to the gates; the topic's owner is another broker than the proxy's gate."""
    topic = ways.topic_of["broker-2"]
    with (
        proxy_to(ways, files, tmp_path, gate_settings(ways, files)) as proxy,
        client_of(proxy, files, "alice") as alice,
        client_of(proxy, files, "bob") as bob,
    ):
        with pytest.raises(pulsar.AuthorizationError):
            bob.create_producer(topic)
        with Publishing(alice, topic):
            held(ways, "broker-2")
        assert conditions(ways) == []


def test_a_proxy_that_finds_brokers_by_itself_goes_round_and_is_told(
    ways: World, files: Path, tmp_path: Path
) -> None:
    """Without a URL it asks the metadata store, and leads clients to the brokers' own ports."""
    ports = ",".join(str(broker.broker_port) for broker in ways.cluster.brokers)
    store = f"zk:{ways.cluster.state.zookeeper_connect}"
    discovering = {
        "metadataStoreUrl": store,
        "configurationMetadataStoreUrl": store,
        "brokerProxyAllowedTargetPorts": ports,
    }
    with (
        proxy_to(ways, files, tmp_path, discovering) as proxy,
        client_of(proxy, files, "alice") as alice,
        Publishing(alice, ways.topic_of["broker-1"]),
    ):
        assert_told(ways)
    over(ways)


def test_a_proxy_at_a_broker_goes_round_and_is_told(
    ways: World, files: Path, tmp_path: Path
) -> None:
    """As in the official chart's default."""
    broker = ways.cluster.brokers[0]
    at_broker = {
        "brokerServiceURL": own_port(broker),
        "brokerProxyAllowedTargetPorts": str(broker.broker_port),
    }
    with (
        proxy_to(ways, files, tmp_path, at_broker) as proxy,
        client_of(proxy, files, "alice") as alice,
        Publishing(alice, ways.topic_of["broker-1"]),
    ):
        assert_told(ways)
    over(ways)


def test_websocket_in_a_broker_goes_round_and_is_told(ways: World) -> None:
    """Its client connects to the broker's own port, from the broker's own machine."""
    with WebSocketPublishing(ways.cluster.brokers[0].web_port, ways.topic_of["broker-1"]):
        assert_told(ways)
    over(ways)


def test_websocket_apart_before_a_gate_keeps_the_limit(
    ways: World, files: Path, tmp_path: Path
) -> None:
    """With a role of its own, which may do what its clients may."""
    service = {
        **authentication(files),
        "authorizationEnabled": True,
        "brokerServiceUrl": ways.cluster.brokers[0].gate_url,
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{token('websocket')}",
    }
    topic = ways.topic_of["broker-2"]
    with companions.websocket(ways.cluster, tmp_path, service) as port:
        # The port is open before the service knows tokens.
        eventually(lambda: refused(port, topic, "bob"), "bob is refused")
        with WebSocketPublishing(port, topic):
            held(ways, "broker-2")


def test_a_function_whose_workers_service_url_is_a_gate_keeps_the_limit(
    ways: World, tmp_path: Path
) -> None:
    """Its output's owner is another broker than the gate's."""
    gate: dict[str, object] = {"pulsarServiceUrl": ways.cluster.brokers[0].gate_url}
    with copying(ways, tmp_path, gate, "through", ways.topic_of["broker-2"]):
        held(ways, "broker-2")


def test_a_function_whose_workers_service_url_is_a_broker_goes_round_and_is_told(
    ways: World, tmp_path: Path
) -> None:
    """As one of a worker inside a broker does."""
    topic = ways.topic_of["broker-1"]
    before = ways.topics.counters(topic).messages_in
    with copying(ways, tmp_path, {}, "round", topic):
        eventually(lambda: ways.topics.counters(topic).messages_in > before, "it publishes")
        assert_told(ways)
    over(ways)


def test_http_produce_passes_at_a_broker_and_neither_at_a_proxy_nor_at_a_sidecar(
    ways: World, files: Path, tmp_path: Path
) -> None:
    """A role that may not produce may not by HTTP; the brokers' web ports are what to close."""
    path = "/topics/" + ways.topic_of["broker-1"].replace("://", "/")
    body = {"producerName": "http", "messages": [{"payload": "hello"}]}

    def produce(url: str, role: str) -> int:
        headers = {"Authorization": f"Bearer {token(role)}"}
        return ways.http.post(url + path, json=body, headers=headers).status_code

    broker = ways.cluster.brokers[0].web_url
    assert produce(broker, "alice") == httpx.codes.OK
    assert produce(broker, "bob") == httpx.codes.UNAUTHORIZED
    assert produce(ways.sidecars.admin_url("broker-1"), "alice") == httpx.codes.FORBIDDEN
    with proxy_to(ways, files, tmp_path, gate_settings(ways, files)) as proxy:
        url = f"http://127.0.0.1:{proxy.web_port}"
        assert produce(url, "alice") == httpx.codes.NOT_FOUND

"""A tenant's admin, and a super-user with an odd name, before real sidecars and a real ZooKeeper."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.topics import Topics
from tests.admin_api.keys import SECRET, token
from tests.admin_api.test_foreign_tenants import requests_of, spellings
from tests.attacks.terminal import Log, assert_harmless, printed
from tests.cli.test_hostile_names import HOSTILE, SHOWN
from tests.integration.world import eventually

pytestmark = pytest.mark.cluster

OWN, OTHER = "hostile-roles", "other-tenant"
GROUPS = "/admin/v2/resourcegroups"
REFUSED = (400, 403, 404, 405, 412)
OWNERS = (
    f"/admin/v2/tenants/{OWN}/resourcegroup",
    f"/admin/v2/namespaces/{OWN}/ns/resourcegroup",
    f"/admin/v2/tenants/{OTHER}/resourcegroup",
    f"/admin/v2/namespaces/{OTHER}/ns/resourcegroup",
)
"""The owners that a super-user has attached to a group."""


class Caller:
    """Asks sidecars with the token of a role, by paths that no library has touched."""

    def __init__(self, cluster: Cluster, role: str) -> None:
        self._ports = {broker.name: broker.admin_port for broker in cluster.brokers}
        self._headers = {"Authorization": f"Bearer {token(role)}"}

    def asks(
        self, method: str, path: str, body: object = None, at: str = "broker-1"
    ) -> tuple[int, str]:
        """Status and text of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._ports[at], timeout=30)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            content = b"" if body is None else json.dumps(body).encode()
            for name, value in self._headers.items():
                connection.putheader(name, value)
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the sidecars that ask for tokens have their files."""
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def guarded(cluster: Cluster, directory: Path) -> Iterator[Cluster]:
    """The cluster, with sidecars that ask for tokens."""
    (directory / "secret").write_bytes(SECRET)
    topics = Topics(cluster.brokers)
    for tenant in (OWN, OTHER):
        topics.create_tenant(tenant)
        topics.create_namespace(f"{tenant}/ns", bundles=1)
        topics.create_topic(f"persistent://{tenant}/ns/t")
    settings = {
        "auth_secret_key_file": str(directory / "secret"),
        "super_user_roles": ["admin", HOSTILE],
        "zookeeper_root": "/hostile-roles",
    }
    own = Sidecars(cluster, directory, settings)
    for broker in cluster.brokers:
        with own.configuration_file(broker.name).open("a") as file:
            file.write(f'[tenant_admins]\n{OWN} = ["alice"]\n')
    with own:
        own.start()
        attach(cluster)
        yield cluster


def attach(cluster: Cluster) -> None:
    """Have a super-user attach a group to all of `OWNERS`, and limit a topic."""
    root = Caller(cluster, "admin")
    for name in ("tight", "loose"):
        body = {"publishRateInMsgs": 50, "allowedTenants": [OWN]}
        assert root.asks("PUT", f"{GROUPS}/{name}", body)[0] == 204
    for owner in OWNERS:
        eventually(lambda owner=owner: root.asks("POST", f"{owner}/tight")[0] == 204, "attached")  # type: ignore[misc]
    limit = {"publishThrottlingRateInMsg": 50}
    path = f"/quota/v1/persistent/{OWN}/ns/t/publishRate"
    eventually(lambda: root.asks("POST", path, limit)[0] == 204, "limited")
    for name in ("broker-1", "broker-2", "broker-3"):
        eventually(lambda name=name: shown(cluster, name) == ["tight"] * 4, f"{name} knows")  # type: ignore[misc]


def shown(cluster: Cluster, at: str) -> list[str]:
    """Return the group that a sidecar shows for each of `OWNERS`."""
    root = Caller(cluster, "admin")
    return [root.asks("GET", owner, at=at)[1] for owner in OWNERS]


def test_what_a_super_user_attached_stands_at_every_sidecar(guarded: Cluster) -> None:
    """Removed or replaced, at the sidecar that was asked then or at another one: 403."""
    alice = Caller(guarded, "alice")
    for at in ("broker-1", "broker-2", "broker-3"):
        for owner in OWNERS:
            for method, path in requests_of(owner):
                assert alice.asks(method, path, at=at)[0] in REFUSED, (at, method, path)
        assert shown(guarded, at) == ["tight"] * 4


def test_a_limit_that_a_super_user_set_on_a_topic_stands(guarded: Cluster) -> None:
    """Raised, lifted or removed, at a sidecar that did not take it in."""
    alice, path = Caller(guarded, "alice"), f"/quota/v1/persistent/{OWN}/ns/t/publishRate"
    for rate in (51, -1):
        body = {"publishThrottlingRateInMsg": rate}
        assert alice.asks("POST", path, body, at="broker-2")[0] == 403
    assert alice.asks("DELETE", path, at="broker-3")[0] == 403
    answer = json.loads(Caller(guarded, "admin").asks("GET", path)[1])
    assert answer["publishThrottlingRateInMsg"] == 50


def test_no_spelling_of_a_path_reaches_another_tenant(guarded: Cluster) -> None:
    """The sidecar's own routes refuse it, and the relay to its broker."""
    alice = Caller(guarded, "alice")
    for path in spellings(OWN, OTHER):
        for method, target in requests_of(path):
            status, text = alice.asks(method, target)
            assert status in REFUSED, (method, target, status, text)
    assert shown(guarded, "broker-1") == ["tight"] * 4


@pytest.mark.shows("pip-82/admin-only")
def test_a_tenants_admin_changes_no_group_and_reads_no_trail(guarded: Cluster) -> None:
    """Groups and the audit trail are a super-user's."""
    alice = Caller(guarded, "alice")
    assert alice.asks("PUT", f"{GROUPS}/tight", {"publishRateInMsgs": 10**9})[0] == 403
    assert alice.asks("DELETE", f"{GROUPS}/tight")[0] == 403
    assert alice.asks("GET", "/quota/v1/audit")[0] == 403


def test_a_tenants_admin_attaches_what_no_super_user_did(guarded: Cluster) -> None:
    """A namespace of his own, and takes it off again."""
    Topics(guarded.brokers).create_namespace(f"{OWN}/mine", bundles=1)
    alice, owner = Caller(guarded, "alice"), f"/admin/v2/namespaces/{OWN}/mine/resourcegroup"
    assert alice.asks("POST", f"{owner}/loose")[0] == 204
    assert alice.asks("DELETE", owner, at="broker-2")[0] in (204, 404)
    eventually(lambda: alice.asks("DELETE", owner, at="broker-1")[0] in (204, 404), "detached")


@pytest.mark.shows("pip-82/admin-only")
def test_another_tenants_group_is_closed_to_a_tenants_admin(guarded: Cluster) -> None:
    """At every sidecar, by every door: 403, nothing is attached and no namespace is made."""
    root, alice = Caller(guarded, "admin"), Caller(guarded, "alice")
    body = {"publishRateInMsgs": 50, "allowedTenants": [OTHER]}
    assert root.asks("PUT", f"{GROUPS}/theirs", body)[0] == 204
    Topics(guarded.brokers).create_namespace(f"{OWN}/greedy", bundles=1)
    namespace = f"/admin/v2/namespaces/{OWN}/greedy"
    doors = (
        ("POST", f"{namespace}/resourcegroup/theirs", None),
        ("PUT", f"{namespace}/resourcegroup/theirs", None),
        ("POST", f"/admin/v2/tenants/{OWN}/resourcegroup/theirs", None),
        ("POST", f"/quota/v1/subscriptions/persistent/{OWN}/greedy/t/s/resourcegroup/theirs", None),
        ("PUT", f"/admin/v2/namespaces/{OWN}/unmade", {"resource_group_name": "theirs"}),
    )
    for at in ("broker-1", "broker-2", "broker-3"):
        for method, path, content in doors:
            status, text = alice.asks(method, path, content, at=at)
            assert (status, "ResourceGroup theirs does not allow" in text) == (403, True), text
        used = json.loads(root.asks("GET", "/quota/v1/groups/theirs", at=at)[1])["attachments"]
        assert not any(used.values()), used
    assert root.asks("GET", f"/admin/v2/namespaces/{OWN}/unmade")[0] == 404

    root.asks("PUT", f"{GROUPS}/theirs", {"allowedTenants": [OTHER, OWN]})
    assert alice.asks("POST", f"{namespace}/resourcegroup/theirs", at="broker-3")[0] == 204


def test_a_roles_name_commands_no_terminal(guarded: Cluster, directory: Path) -> None:
    """Of one that may everything, and of one that may nothing: not in the log, not where it is listed."""
    log, port = Log(directory / "broker-1-sidecar.log"), guarded.brokers[0].admin_port
    path = f"{GROUPS}/of-an-odd-role"
    refused = Caller(guarded, f"{HOSTILE}?").asks("PUT", path, {"publishRateInMsgs": 5})
    assert refused[0] == 403
    assert_harmless(refused[1])

    assert Caller(guarded, HOSTILE).asks("PUT", path, {"publishRateInMsgs": 5})[0] == 204
    for words in (("audit", "list"), ("operations",)):
        said = printed(f"http://127.0.0.1:{port}", *words, token=token("admin"))
        assert SHOWN in said, words
        assert_harmless(said)
    log.assert_harmless()

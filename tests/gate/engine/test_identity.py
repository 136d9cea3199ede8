"""The role of a connection, and its group: only a proof counts."""

from __future__ import annotations

import pytest

from coordinator.core.model import Attachments, MonitoringClass
from coordinator.core.owners import ANONYMOUS
from coordinator.gate.engine.identity import IdentityRules
from coordinator.gate.protocol.connect_policy import Client as Address
from coordinator.ports import TokenRefused
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client

BASIC = IdentityRules(basic=True)
PROXIED = IdentityRules(proxy_roles=frozenset({"proxy"}))
LIMIT = 10


class Valid:
    """A verifier to which a token is valid if it says so."""

    def role_of(self, token: str) -> str:
        """See `Verifier`."""
        if not token.startswith("valid:"):
            raise TokenRefused("it is not")
        return token.removeprefix("valid:")


TOKENS = IdentityRules(Valid(), proxy_roles=frozenset({"proxy"}))


def connect(method: str = "", data: bytes = b"", original: str = "") -> bytes:
    """CONNECT with these credentials."""
    fields: list[tuple[int, int | str | bytes]] = [(1, "test")]
    fields += [(3, data)] if data else []
    fields += [(4, 19)]
    fields += [(5, method)] if method else []
    fields += [(7, original)] if original else []
    return peer.command(2, *fields)


def answer(data: bytes, method: str = "token") -> bytes:
    """AUTH_RESPONSE."""
    return peer.command(37, (1, "test"), (2, peer.message((1, method), (2, data))), (3, 19))


CHALLENGE = peer.command(36, (1, "test"))


def connected(
    bench: Bench, first: bytes, rules: IdentityRules = TOKENS, principal: str = ""
) -> Client:
    """A connection that the broker has accepted."""
    client = bench.client(identities=rules, connected=False)
    client.session.connected(Address("10.1.1.1", principal))
    client.sends(first)
    client.is_sent(peer.connected())
    return client


@pytest.mark.parametrize(
    ("first", "rules", "principal", "role"),
    [
        (connect("token", b"valid:alice"), TOKENS, "", "alice"),
        (connect("token", b"forged:alice"), TOKENS, "", ANONYMOUS),
        (connect("token", b""), TOKENS, "", ANONYMOUS),
        (connect("token", b"\xff\xfe"), TOKENS, "", ANONYMOUS),
        (connect("token", b"valid:alice"), BASIC, "", ANONYMOUS),
        (connect("Token", b"valid:alice"), TOKENS, "", ANONYMOUS),
        (connect("", b"valid:alice"), TOKENS, "", ANONYMOUS),
        (connect("token", b"valid:alice"), TOKENS, "carol", "alice"),
        (connect("token", b"forged:alice"), TOKENS, "carol", "carol"),
        (connect(), TOKENS, "carol", "carol"),
        (connect("basic", b"bob:secret"), BASIC, "", "bob"),
        (connect("basic", b"bob:secret"), TOKENS, "", ANONYMOUS),
        (connect("basic", b"bob"), BASIC, "", ANONYMOUS),
        (connect("basic", b":secret"), BASIC, "", ANONYMOUS),
        (connect("sasl", b"valid:alice"), TOKENS, "", ANONYMOUS),
        (connect("token", b"valid:proxy", "dora"), TOKENS, "", "dora"),
        (connect("token", b"valid:proxy"), TOKENS, "", "proxy"),
        (connect("token", b"valid:alice", "dora"), TOKENS, "", "alice"),
        (connect("token", b"forged:proxy", "dora"), TOKENS, "", ANONYMOUS),
        (connect("", b"", "dora"), PROXIED, "", ANONYMOUS),
        (connect("", b"", "dora"), PROXIED, "proxy", "dora"),
    ],
)
def test_a_role_is_what_was_proved_and_nothing_that_was_only_said(
    bench: Bench, first: bytes, rules: IdentityRules, principal: str, role: str
) -> None:
    """Credentials pass to the broker unchanged, whatever the gate makes of them."""
    assert connected(bench, first, rules, principal).session.role == role


def attach(bench: Bench, **roles: str) -> None:
    """Attach roles."""
    bench.groups.attachments = Attachments(roles=roles)
    for client in bench.clients:
        client.session.reattach(bench.now_ns)


def passes(bench: Bench, client: Client, frames: int = 3 * LIMIT) -> int:
    """The SENDs of these that pass at once, by the first producer."""
    return len(client.sends(*(peer.send(sequence_id=number) for number in range(frames))))


def groups_of(bench: Bench) -> dict[str, int]:
    """The producers of each group that has any."""
    found = {t.group: t for t in bench.groups.collect(bench.now_ns) if t.participants}
    return {name: traffic.participants for name, traffic in found.items()}


def test_connections_of_one_role_share_its_limit_and_no_other_role_has_it(bench: Bench) -> None:
    """Of any topic and namespace; the default limits those without an attachment."""
    attach(bench, alice="slow")
    bench.limit("slow", messages=LIMIT)
    clients = {}
    for number, role in enumerate(("alice", "alice", "bob")):
        clients[number] = connected(bench, connect("token", f"valid:{role}".encode()))
        clients[number].opens(peer.producer(f"persistent://t{number}/n/a"))
    first, second, other = (passes(bench, clients[number]) for number in range(3))
    assert first + second <= LIMIT + 1
    assert other == 3 * LIMIT


def test_the_default_and_the_anonymous_have_groups_too(bench: Bench) -> None:
    """A client that proves nothing is of the default, unless anonymous is attached."""
    bench.groups.attachments = Attachments({"tenant": "t"}, roles={"": "rest", "team-*": "team"})
    for first in (connect(), connect("token", b"valid:team-1"), connect("token", b"nothing")):
        connected(bench, first).opens(peer.producer("persistent://tenant/ns/a"))
    assert groups_of(bench) == {"t": 3, "rest": 2, "team": 1}
    bench.groups.attachments = Attachments(roles={"": "rest", ANONYMOUS: "strangers"})
    for client in bench.clients:
        client.session.reattach(bench.now_ns)
    assert groups_of(bench) == {"strangers": 2, "rest": 1}


def test_another_token_counts_from_then_on_with_all_that_is_held(bench: Bench) -> None:
    """Producers and consumers move to the new role's group; held messages wait for its limit."""
    attach(bench, alice="slow", bob="fast")
    bench.limit("slow", messages=LIMIT)
    bench.limit("fast", messages=1_000)
    client = connected(bench, connect("token", b"valid:alice"))
    client.opens(peer.producer(TOPIC), peer.subscribe(TOPIC, request_id=9))
    assert passes(bench, client) <= LIMIT
    client.is_sent(CHALLENGE)
    sent = client.sends(answer(b"valid:bob"))
    assert sent[0] == answer(b"valid:bob"), "the broker judges the token before it gets more"
    bench.wait(50)
    assert client.session.role == "bob"
    assert groups_of(bench) == {"fast": 1}
    assert client.session.held_frames == 0, "what was held goes on by the new limit"


@pytest.mark.parametrize("data", [b"forged:bob", b"", b"\xff", b"valid"])
def test_an_answer_that_proves_nothing_leaves_the_role_and_its_limit(
    bench: Bench, data: bytes
) -> None:
    """The broker closes such a connection; until then it keeps its limit."""
    attach(bench, alice="slow")
    bench.limit("slow", messages=LIMIT)
    client = connected(bench, connect("token", b"valid:alice"))
    client.opens(peer.producer(TOPIC))
    client.is_sent(CHALLENGE)
    client.sends(answer(data))
    assert client.session.role == "alice"
    assert passes(bench, client) <= LIMIT


def test_the_method_of_an_answer_is_that_of_the_connection(bench: Bench) -> None:
    """A user of method basic cannot become another one without his password, nor a token's role."""
    for method in ("basic", "token"):
        client = connected(
            bench, connect("basic", b"bob:secret"), IdentityRules(Valid(), basic=True)
        )
        client.is_sent(CHALLENGE)
        client.sends(answer(b"valid:alice", method))
        client.is_sent(CHALLENGE)
        client.sends(answer(b"alice:guess", method))
        assert client.session.role == "bob"


def test_a_proxy_renews_its_own_token_and_speaks_for_its_client(bench: Bench) -> None:
    """The client's own token, which the proxy passes on, names the client."""
    client = connected(bench, connect("token", b"valid:proxy", "dora"))
    client.is_sent(CHALLENGE)
    client.sends(answer(b"valid:proxy"))
    assert client.session.role == "dora"
    client.is_sent(CHALLENGE)
    client.sends(answer(b"valid:emil"))
    assert client.session.role == "emil"


@pytest.mark.parametrize("role", ["a\nb\x00", "x" * 10_240, "\u202e", "team-" + "y" * 10_240])
def test_a_role_with_any_name_has_a_limit_and_is_shown_under_no_name_of_its_own(
    bench: Bench, role: str
) -> None:
    """It matches patterns by its letters and counts as one of the others."""
    attach(bench, **{"": "rest", "team-*": "team"})
    connected(bench, connect("token", f"valid:{role}".encode())).opens(peer.producer(TOPIC))
    wanted = "team" if role.startswith("team-") else "rest"
    assert groups_of(bench) == {wanted: 1}
    assert {(v.role, v.group) for v in bench.groups.roles.views(bench.now_ns)} == {
        ("(others)", wanted)
    }


def test_roles_are_counted_apart_and_their_namespace_as_before(bench: Bench) -> None:
    """With the time for which they wait; two roles of one group are two rows."""
    attach(bench, **{"team-*": "team"})
    bench.limit("team", messages=LIMIT)
    for role in ("team-a", "team-b"):
        connected(bench, connect("token", f"valid:{role}".encode())).opens(peer.producer(TOPIC))
    a, b = bench.clients
    passed = passes(bench, a), passes(bench, b)
    bench.wait(300)
    views = {view.role: view for view in bench.groups.roles.views(bench.now_ns)}
    assert {role: view.group for role, view in views.items()} == {
        "team-a": "team",
        "team-b": "team",
    }
    assert views["team-a"].messages >= passed[0]
    assert views["team-b"].held_ns > 0
    assert {view.monitoring_class for view in views.values()} == {MonitoringClass.PUBLISH}
    (whole,) = bench.groups.namespaces.collect(bench.now_ns)
    assert whole.messages == sum(view.messages for view in views.values())
    assert whole.held_ns <= 300_000_000


def test_deliveries_count_for_the_role_of_their_consumer(bench: Bench) -> None:
    """Apart from what it publishes, and for the namespace, too."""
    attach(bench, alice="a")
    client = connected(bench, connect("token", b"valid:alice"))
    client.opens(peer.subscribe(TOPIC))
    client.is_sent(peer.delivery(messages=3))

    (view,) = bench.groups.roles.views(bench.now_ns)
    assert (view.role, view.group, view.monitoring_class, view.messages) == (
        "alice", "a", MonitoringClass.DISPATCH, 3,
    )  # fmt: skip
    (whole,) = bench.groups.namespaces.collect(bench.now_ns)
    assert whole.messages == 3


def test_without_an_attached_role_a_participant_counts_as_it_did(bench: Bench) -> None:
    """It adds to its namespace's counter itself, and no role is counted."""
    attach(bench)
    connected(bench, connect("token", b"valid:alice")).opens(peer.producer(TOPIC))
    assert not tuple(bench.groups.roles.views(bench.now_ns))
    assert groups_of(bench) == {}


def test_turns_are_those_of_the_new_role(bench: Bench) -> None:
    """A client that shows another token while its messages wait has half of the limit, as before."""
    bench.limited(LIMIT)
    clients = [
        connected(bench, connect("token", b"valid:" + name)) for name in (b"alice", b"carol")
    ]
    for client in clients:
        client.opens(peer.producer(TOPIC))
        client.sends(*(peer.send(sequence_id=number) for number in range(20 * LIMIT)))
    bench.wait(1_000)
    clients[0].is_sent(CHALLENGE)
    assert clients[0].sends(answer(b"valid:bob"))[-1] == answer(b"valid:bob")
    clients[1].broker_got()

    bench.wait(10_000)

    assert clients[0].session.role == "bob"
    passed = [len(client.broker_got()) for client in clients]
    assert passed == pytest.approx([5 * LIMIT] * 2, abs=2)


def test_a_new_role_begins_level_with_others_of_it(bench: Bench) -> None:
    """The turns that its producer had under the old role are not held against it."""
    bench.limited(LIMIT)
    changing = connected(bench, connect("token", b"valid:alice"))
    changing.opens(peer.producer(TOPIC))
    changing.sends(*(peer.send(sequence_id=number) for number in range(50 * LIMIT)))
    bench.wait(20_000)
    other = connected(bench, connect("token", b"valid:bob"))
    other.opens(peer.producer(TOPIC))
    other.sends(*(peer.send(sequence_id=number) for number in range(50 * LIMIT)))
    bench.wait(1_000)
    changing.is_sent(CHALLENGE)
    changing.sends(answer(b"valid:bob"))
    other.broker_got()

    bench.wait(10_000)

    passed = [len(client.broker_got()) for client in (changing, other)]
    assert passed == pytest.approx([5 * LIMIT] * 2, abs=2)

"""The addresses that a broker names: a client is told those of gates."""

from __future__ import annotations

import pytest

from coordinator.core.addresses import AddressMap, BrokerRegistration, KnownBrokers, ServiceUrls
from coordinator.gate.protocol.refusals import RefusalReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.peer import Field

INTERNAL, INTERNAL_TLS = "pulsar://b:6650", "pulsar+ssl://b:6651"
GATE, GATE_TLS = "pulsar://b:6652", "pulsar+ssl://b:6653"
BARE = "pulsar://bare:6650"
FOREIGN, FOREIGN_TLS = "pulsar://east:6650", "pulsar+ssl://east:6651"
NOT_READY = 6
LATER: Field = (99, "of a later release")


@pytest.fixture
def bench(bench: Bench) -> Bench:
    """A gate that knows a broker with a gate before it, and one without."""
    own = ServiceUrls(INTERNAL, INTERNAL_TLS)
    bench.addresses.map = KnownBrokers("external").update(
        [
            BrokerRegistration("b:8080", own, {"external": ServiceUrls(GATE, GATE_TLS)}),
            BrokerRegistration("bare:8080", ServiceUrls(BARE)),
        ]
    )
    return bench


def looked_up(*fields: Field, request_id: int = 7) -> bytes:
    """LOOKUP_RESPONSE: connect to these addresses."""
    return peer.command(24, *fields, (3, 1), (4, request_id), (5, 1))


def dag(*fields: Field) -> bytes:
    """SCALABLE_TOPIC_UPDATE, with a segment and these fields of its layout."""
    layout = peer.message((1, 3), (2, peer.message((1, 0), (2, 0), (3, 65535))), *fields)
    return peer.command(71, (1, 9), (2, layout), (5, "topic://t/n/s"))


def segment_broker(*urls: Field) -> Field:
    """The broker of a segment in a layout."""
    return (3, peer.message((1, 0), *urls))


def assignments(*of_coordinators: Field) -> bytes:
    """WATCH_TC_ASSIGNMENTS_UPDATE."""
    assigned: list[Field] = [(2, peer.message((1, 0), each)) for each in of_coordinators]
    return peer.command(80, (1, 9), (2, peer.message((1, 1), *assigned)))


UNTOUCHED = {
    "lookup": looked_up((1, GATE), (2, GATE_TLS)),
    "lookup without TLS": looked_up((1, GATE)),
    "lookup with an empty address": looked_up((1, GATE), (2, "")),
    "lookup that failed": peer.command(24, (3, 2), (4, 7), (6, NOT_READY), (7, INTERNAL)),
    "lookup of a later release": looked_up((1, GATE), LATER),
    "closed producer": peer.command(15, (1, 1), (2, 2**64 - 1), (3, GATE), (4, GATE_TLS)),
    "closed producer, nowhere": peer.command(15, (1, 1), (2, 2**64 - 1)),
    "closed consumer": peer.command(16, (1, 1), (2, 2**64 - 1), (3, GATE)),
    "migrated": peer.command(68, (1, 1), (2, 0), (3, GATE)),
    "layout": dag(segment_broker((2, GATE)), (4, GATE), (5, GATE_TLS)),
    "layout that failed": peer.command(71, (1, 9), (3, NOT_READY), (4, INTERNAL)),
    "coordinators": assignments((2, GATE)),
}


@pytest.mark.parametrize("answer", UNTOUCHED.values(), ids=UNTOUCHED)
def test_a_frame_that_names_gates_only_passes_untouched(bench: Bench, answer: bytes) -> None:
    """So do texts that happen to be an address, and fields of later releases."""
    client = bench.client()

    assert client.is_sent(answer) == [answer]
    assert client.refusals == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (looked_up((1, INTERNAL), (2, INTERNAL_TLS)), looked_up((1, GATE), (2, GATE_TLS))),
        (looked_up((1, INTERNAL), LATER), looked_up((1, GATE), LATER)),
        (looked_up((1, GATE), (2, INTERNAL_TLS)), looked_up((1, GATE), (2, GATE_TLS))),
        (
            peer.command(24, (1, INTERNAL), (3, 0), (4, 7)),  # Redirect
            peer.command(24, (1, GATE), (3, 0), (4, 7)),
        ),
        (
            peer.command(15, (1, 1), (2, 5), (3, INTERNAL), (4, INTERNAL_TLS)),
            peer.command(15, (1, 1), (2, 5), (3, GATE), (4, GATE_TLS)),
        ),
        (peer.command(16, (1, 1), (2, 5), (3, INTERNAL)), peer.command(16, (1, 1), (2, 5), (3, GATE))),
        (peer.command(68, (1, 1), (2, 0), (3, INTERNAL)), peer.command(68, (1, 1), (2, 0), (3, GATE))),
        (
            dag(segment_broker((2, INTERNAL)), (4, INTERNAL), (5, INTERNAL_TLS)),
            dag(segment_broker((2, GATE)), (4, GATE), (5, GATE_TLS)),
        ),
        (
            dag(segment_broker((2, GATE)), segment_broker((2, INTERNAL), (3, INTERNAL_TLS))),
            dag(segment_broker((2, GATE)), segment_broker((2, GATE), (3, GATE_TLS))),
        ),
        (assignments((2, INTERNAL), (3, INTERNAL_TLS)), assignments((2, GATE), (3, GATE_TLS))),
    ],
)  # fmt: skip
def test_the_address_of_a_gate_takes_the_place_of_an_internal_one(
    bench: Bench, answer: bytes, told: bytes
) -> None:
    """In every command that has any; all other fields stay as they are, in their order."""
    client = bench.client()

    assert client.is_sent(answer + peer.PING) == [told, peer.PING]
    assert client.refusals == []


@pytest.mark.parametrize("cut", [4, 11, 30])
def test_an_answer_that_comes_in_pieces_is_written_anew_all_the_same(
    bench: Bench, cut: int
) -> None:
    """Wherever the pieces meet."""
    client, answer = bench.client(), looked_up((1, INTERNAL))

    assert client.is_sent(answer[:cut]) == []
    assert client.is_sent(answer[cut:]) == [looked_up((1, GATE))]


@pytest.mark.parametrize(
    "fields",
    [
        [(1, BARE)],
        [(1, FOREIGN)],
        [(1, GATE), (2, FOREIGN_TLS)],
        [(1, FOREIGN), (2, INTERNAL_TLS)],
        [(1, b"\xff\xfe")],
        [(1, f"{GATE}/")],
    ],
)
def test_a_lookup_that_leads_to_no_gate_fails_so_that_the_client_asks_again(
    bench: Bench, fields: list[Field]
) -> None:
    """It is counted, told to the log with the reason, and does not tell the client the address."""
    client = bench.client()

    (answer,) = client.is_sent(looked_up(*fields))

    reason = "The topic's broker has no known gate; try again."
    assert answer == peer.command(24, (3, 2), (4, 7), (6, NOT_READY), (7, reason))
    assert bench.counters.refusals == {RefusalReason.ADDRESS: 1}


MEND = "add the gates' listener to that broker's advertisedListeners"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (BARE, f"its broker has no gate there; {MEND}"),
        # Another listener would not help there.
        (FOREIGN, "no registered broker has this address"),
    ],
    ids=["no gate", "unregistered"],
)
def test_the_log_is_told_once_for_each_connection(bench: Bench, url: str, reason: str) -> None:
    """Clients ask again and again."""
    client = bench.client()
    for request_id in range(3):
        client.is_sent(looked_up((1, url), request_id=request_id))

    told = f"LOOKUP_RESPONSE names {url}: {reason}"
    assert client.refusals == [(RefusalReason.ADDRESS, told)]
    assert bench.counters.refusals == {RefusalReason.ADDRESS: 3}


def test_an_address_whose_gate_has_no_such_listener_is_left_out_of_a_lookup(bench: Bench) -> None:
    """The other one is the gate's: clients use one of the two."""
    gate = {"external": ServiceUrls(GATE)}
    bench.addresses.map = KnownBrokers("external").update(
        [BrokerRegistration("b:8080", ServiceUrls(INTERNAL, INTERNAL_TLS), gate)]
    )
    client = bench.client()

    assert client.is_sent(looked_up((1, INTERNAL), (2, INTERNAL_TLS))) == [looked_up((1, GATE))]
    assert client.refusals == []


@pytest.mark.parametrize(("kind", "opened"), [
    (15, peer.producer(TOPIC)),
    (16, peer.subscribe(TOPIC)),
])  # fmt: skip
@pytest.mark.parametrize("url", [BARE, FOREIGN])
def test_a_close_goes_without_an_address_that_leads_to_no_gate(
    bench: Bench, kind: int, opened: bytes, url: str
) -> None:
    """The client looks its topic up; the participant has ended all the same."""
    client = bench.client()
    client.opens(opened)

    passed = client.is_sent(peer.command(kind, (1, 1), (2, 5), (3, url), (4, GATE_TLS)))

    assert passed == [peer.command(kind, (1, 1), (2, 5), (4, GATE_TLS))]
    assert client.session.producers == client.session.consumers == 0
    assert bench.counters.refusals == {RefusalReason.ADDRESS: 1}


def test_a_layout_goes_without_the_brokers_that_have_no_gate(bench: Bench) -> None:
    """An address is required of a segment's broker, so that it is left out as a whole."""
    client = bench.client()
    layout = dag(segment_broker((2, BARE)), segment_broker((2, GATE)), (4, FOREIGN))

    assert client.is_sent(layout) == [dag(segment_broker((2, GATE)))]


def test_a_topic_may_migrate_to_another_cluster(bench: Bench) -> None:
    """The operator has set that cluster's address; it is told to the log."""
    client = bench.client()
    migrated = peer.command(68, (1, 1), (2, 0), (3, FOREIGN), (4, FOREIGN_TLS))

    assert client.is_sent(migrated) == [migrated]
    assert client.migrations == [FOREIGN, FOREIGN_TLS]
    assert bench.counters.refusals == {}


def test_a_topic_does_not_migrate_to_a_broker_of_this_cluster_without_a_gate(bench: Bench) -> None:
    """The client looks its topic up."""
    client = bench.client()

    told = client.is_sent(peer.command(68, (1, 1), (2, 0), (3, BARE)))

    assert told == [peer.command(68, (1, 1), (2, 0))]
    assert bench.counters.refusals == {RefusalReason.ADDRESS: 1}


def test_a_map_that_changes_counts_for_connections_that_are_there(bench: Bench) -> None:
    """From the next frame on."""
    client = bench.client()
    client.is_sent(looked_up((1, FOREIGN)))

    bench.addresses.map = AddressMap({FOREIGN: FOREIGN})

    assert client.is_sent(looked_up((1, FOREIGN))) == [looked_up((1, FOREIGN))]


def test_while_no_broker_is_known_all_but_the_own_brokers_address_passes(bench: Bench) -> None:
    """The gate cannot tell gates from brokers then."""
    bench.addresses.map = AddressMap(own_broker=frozenset({INTERNAL}))
    client = bench.client()

    assert client.is_sent(looked_up((1, FOREIGN))) == [looked_up((1, FOREIGN))]
    (answer,) = client.is_sent(looked_up((1, INTERNAL)))
    assert answer != looked_up((1, INTERNAL))
    assert bench.counters.refusals == {RefusalReason.ADDRESS: 1}

"""CONNECT: who may say what of himself, and what the broker is told of clients with certificates."""

from __future__ import annotations

import pytest

from coordinator.gate.engine.session import Session
from coordinator.gate.protocol.connect_policy import Client, ConnectPolicy
from coordinator.gate.protocol.frames import FrameFault, MalformedFrame
from tests.gate import peer
from tests.gate.conftest import Bench

TOKEN = peer.command(2, (1, "client 4.2"), (3, b"a token"), (4, 19), (5, "token"))
BASIC = peer.command(2, (1, "client 4.2"), (3, b"alice:secret"), (4, 19), (5, "basic"))
CERTIFICATE = peer.command(2, (1, "client 4.2"), (3, b""), (4, 19), (5, "tls"), (10, b"\x08\x01"))
PROXY = peer.command(2, (1, "proxy"), (4, 19), (5, "tls"), (7, "admin"), (8, b"x"), (9, "token"))


def session(bench: Bench, *, vouches: bool, principal: str = "") -> Session:
    """A connection of a client that has shown a certificate, or none."""
    made = Session(
        bench.groups,
        bench.queue,
        bench.counters,
        released=lambda: None,
        connect_policy=ConnectPolicy(frozenset({"broker:6650"}), vouches=vouches),
    )
    made.connected(Client("10.0.0.1", principal))
    return made


def told(made: Session, *frames: bytes) -> list[bytes]:
    """Return the bytes that the broker receives of these commands."""
    made.receive_from_client(b"".join(frames), 0)
    return peer.split(b"".join(made.to_broker))


@pytest.mark.parametrize(
    "connect", [TOKEN, BASIC, CERTIFICATE, PROXY], ids=["token", "basic", "tls", "proxy"]
)
def test_a_gate_without_a_certificate_passes_every_connect(bench: Bench, connect: bytes) -> None:
    """CONNECT stays as it is: the broker sees no certificate, so method tls gives a client no role."""
    assert told(session(bench, vouches=False), connect) == [connect]


@pytest.mark.parametrize("principal", ["", "alice"])
@pytest.mark.parametrize("connect", [TOKEN, BASIC], ids=["token", "basic"])
def test_credentials_say_who_a_client_is(bench: Bench, principal: str, connect: bytes) -> None:
    """The broker judges them, with a certificate or without; OAuth2 shows its token as one."""
    assert told(session(bench, vouches=True, principal=principal), connect) == [connect]


def test_the_broker_is_told_whose_certificate_it_was(bench: Bench) -> None:
    """The gate does as Pulsar's proxy, before all other frames of the client, which stay as they are."""
    expected = peer.command(
        2, (1, "client 4.2"), (4, 19), (5, "tls"), (7, "alice"), (10, b"\x08\x01")
    )

    made = session(bench, vouches=True, principal="alice")

    assert told(made, peer.PING, CERTIFICATE, peer.PING) == [peer.PING, expected, peer.PING]


@pytest.mark.parametrize(
    ("connect", "principal"), [(CERTIFICATE, ""), (PROXY, ""), (PROXY, "proxy")]
)
def test_nobody_borrows_the_gates_certificate(bench: Bench, connect: bytes, principal: str) -> None:
    """Method tls needs a certificate, and who it is for is not the client's to say."""
    made = session(bench, vouches=True, principal=principal)

    with pytest.raises(MalformedFrame) as refusal:
        told(made, connect)

    assert refusal.value.fault is FrameFault.NOT_AUTHENTICATED
    assert made.to_broker == []
    (answer,) = peer.split(b"".join(made.to_client))
    assert peer.kind_of(answer) == 14


def test_what_a_later_release_adds_is_left_out(bench: Bench) -> None:
    """Feature flags, too: neither side may speak in a way that the gate does not understand."""
    later = peer.command(2, (1, "c"), (4, 19), (10, b"\x08\x01\x50\x01"), (90, 1))
    known = peer.command(2, (1, "c"), (4, 19), (10, b"\x08\x01"))

    assert told(session(bench, vouches=False), later) == [known]


def test_who_asks_for_another_broker_is_refused_however_it_says_who_it_is(bench: Bench) -> None:
    """A client that asks for our broker is accepted."""
    ours = peer.command(2, (1, "c"), (4, 19), (5, "none"), (6, "broker:6650"))
    foreign = peer.command(2, (1, "c"), (4, 19), (5, "none"), (6, "elsewhere:6650"))

    assert told(session(bench, vouches=True), ours) == [ours]
    with pytest.raises(MalformedFrame, match="not ours"):
        told(session(bench, vouches=True), foreign)

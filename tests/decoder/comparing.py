"""Find the differences between the gate's belief and Pulsar's reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Final

from tests.decoder import belief
from tests.decoder.belief import Broker
from tests.decoder.cases import PRINCIPAL, TARGET, Case, Run
from tests.decoder.judge import Judge, Reading, libraries
from tests.decoder.wire import CONNECT, LOOKUP, SEND, take_apart

#: The fields of what the gate writes anew, and those that may come more than once.
_REWRITTEN: Final = {
    CONNECT: (frozenset(range(1, 12)), frozenset[int]()),
    LOOKUP: (frozenset(range(1, 9)), frozenset({8})),
}


class Difference(AssertionError):
    """The gate and Pulsar take something differently."""


def settle(case: Case, done: Run, readings: Sequence[Reading]) -> str:
    """Let a broker answer what passed, and compare what it has with what the gate believes.

    Returns:
        How the case ended.

    Raises:
        Difference: they are not the same.
    """
    broker = Broker(counts_delayed=case.delayed)
    for requests in case.opened or ():
        for frame, reading in zip(requests, _readings_of(requests), strict=True):
            broker.receives(frame, reading)
    faults: list[str] = []
    answers = b""
    for frame, reading in zip(done.passed, readings, strict=True):
        if reading.refused or reading.command is None:
            return "passed, and refused by Pulsar"
        if reading.kind == SEND and reading.metadata is None:
            raise Difference(f"metadata that no consumer can read\n{_shown(frame, reading)}")
        faults += filter(None, (_alike(frame, reading), _rewritten(case, frame, reading)))
        answers += broker.receives(frame, reading)
    broker.ends_closing()
    done.connection.session.receive_from_broker(answers, done.bench.now_ns)
    believed = belief.of_gate(done.bench, done.connection)
    faults += (
        f"{name} here and at the broker: {here} {there}"
        for name, here, there in belief.unlike(believed, broker.belief)
    )
    if faults:
        shown = "\n".join(map(_shown, done.passed, readings))
        raise Difference("\n".join(faults) + f"\nTo the broker went\n{shown}")
    return done.end or "passed"


def _alike(frame: bytes, reading: Reading) -> str:
    """Say how Pulsar's reading differs from the frame's bytes; empty if it does not."""
    end = 8 + int.from_bytes(frame[4:8], "big")
    if reading.end != end:
        return f"the command ends at {end}, Pulsar read up to {reading.end}"
    if reading.others:
        return f"further sub-messages: {', '.join(reading.others)}"
    try:
        draft = take_apart(frame)
    except (ValueError, IndexError) as error:
        return f"no protobuf: {error}"
    if draft.encode() != frame or [each.number for each in draft.command] != [1, reading.kind]:
        return "not in canonical form"
    return ""


def _rewritten(case: Case, frame: bytes, reading: Reading) -> str:
    """Say what a CONNECT or LOOKUP holds that the gate must not pass; empty if nothing."""
    said = reading.command
    assert said is not None
    if reading.kind in _REWRITTEN:
        known, repeated = _REWRITTEN[reading.kind]
        numbers = Counter(_numbers(frame))
        if not numbers.keys() <= known or any(
            n > 1 and f not in repeated for f, n in numbers.items()
        ):
            return f"fields {sorted(numbers.elements())} of what is written anew"
    if reading.kind == CONNECT:
        if said.get("proxytobrokerurl", "") not in ("", TARGET):
            return "another broker"
        if case.vouches and said.get("authmethodname") == "tls":
            speaks = {name for name in said if name.startswith("original")} | {
                "authdata"
            } & said.keys()
            if said.get("originalprincipal") != PRINCIPAL or speaks != {"originalprincipal"}:
                return "a role that the gate has not seen"
    if reading.kind == LOOKUP and said.get("advertisedlistenername"):
        return "a listener"
    return ""


def _numbers(frame: bytes) -> list[int]:
    """The fields of a command, by number; none if it is no protobuf."""
    with suppress(ValueError, IndexError):
        for field in take_apart(frame).command:
            if isinstance(field.value, list):
                return [each.number for each in field.value]
    return []


def _shown(frame: bytes, reading: Reading) -> str:
    return f"  {frame.hex()}\n  Pulsar reads {reading}"


@cache
def _readings_of(requests: tuple[bytes, ...]) -> tuple[Reading, ...]:
    """Return Pulsar's reading of the first frames of connections."""
    with Judge(libraries()[0]) as judge:
        return tuple(judge.read(requests))

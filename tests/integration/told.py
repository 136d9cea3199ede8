"""The answers of a sidecar: limits, health, readiness, metrics, conditions, events."""

from __future__ import annotations

import json
import time

from tests.integration.world import World, eventually

DROPPED = "pulsar_quota_gate_dropped_frames_total"
"""The series that counts held messages whose producer ended."""


def wait_for_limit(world: World, name: str, limits: range) -> None:
    """Wait until a broker's local limit is one of these."""
    eventually(lambda: world.local_limit(name) in limits, f"{limits} at {name}")


def degradations(world: World, name: str) -> list[str]:
    """Why a sidecar is DEGRADED, as its health names it; nothing while it is not."""
    health = world.get("/quota/v1/health", at=name)
    assert health["state"] == "DEGRADED" or not health["degradations"]
    return [degradation["name"] for degradation in health["degradations"]]


def refusal(world: World, name: str) -> str:
    """Return why a sidecar is not ready, as a probe sees it; empty when it is."""
    answer = world.http.get(f"{world.sidecars.admin_url(name)}/quota/v1/ready")
    assert answer.status_code in (200, 503)
    return "" if answer.status_code == 200 else str(answer.json()["reason"])


def sample(world: World, name: str, series: str) -> float | None:
    """A sample of a sidecar's metrics, by its name with its labels."""
    text = world.http.get(f"{world.sidecars.admin_url(name)}/metrics").text
    found = [line for line in text.splitlines() if line.startswith(f"{series} ")]
    return float(found[0].rpartition(" ")[2]) if found else None


def held(world: World, name: str = "broker-1") -> int:
    """The publishes that the gate of a broker holds."""
    rows = world.get("/quota/v1/gate/connections?limit=200", at=name)
    return sum(row["heldFrames"] for row in rows)


def conditions(world: World, name: str) -> set[tuple[str, str]]:
    """Kinds and subjects of the conditions that hold at a sidecar."""
    found = world.get("/quota/v1/conditions", at=name)
    return {(each["condition"], each["subject"]) for each in found}


def members(world: World, name: str) -> dict[str, int]:
    """The incarnation of every member, as a sidecar knows them."""
    found = world.get("/quota/v1/members", at=name)
    return {member["broker"]: member["incarnation"] for member in found}


def is_ready(world: World, name: str) -> bool:
    """Whether a sidecar limits by what it knows of the others."""
    return refusal(world, name) == ""


def wait_for_note(world: World, name: str, kind: str, text: str) -> None:
    """Follow a sidecar's events, which begin with what has happened already, until one begins so."""
    url = f"{world.sidecars.admin_url(name)}/quota/v1/events"
    deadline = time.monotonic() + 30
    with world.http.stream("GET", url) as answer:  # a silent stream has a comment every ten seconds
        for line in answer.iter_lines():
            if line.startswith("data: "):
                note = json.loads(line.removeprefix("data: "))
                if note["kind"] == kind and note["text"].startswith(text):
                    return
            assert time.monotonic() < deadline, f"never: {text}"


def wait_for_dropped(world: World, name: str, reason: str, count: int) -> None:
    """Wait until a sidecar has dropped this number of reports for this reason."""
    eventually(lambda: dropped_at(world, name).get(reason, 0) >= count, reason)


def dropped_at(world: World, name: str) -> dict[str, int]:
    """Return the number of reports that a sidecar dropped, by reason."""
    found: dict[str, int] = world.get("/quota/v1/health", at=name)["reportsDropped"]
    return found


def wait_for_capped(world: World, name: str, broker: str) -> None:
    """Wait until a sidecar has capped what another one announces."""

    def capped() -> bool:
        return broker in world.get("/quota/v1/health", at=name)["announcementsCapped"]

    eventually(capped, f"{name} caps what {broker} announces")

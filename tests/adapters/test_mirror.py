"""A directory that ZooKeeper refuses is asked for again and again, and told once."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from coordinator.adapters.zookeeper.mirror import ZooKeeperMirror
from coordinator.ports import Refused
from coordinator.runtime.supervision import TaskSupervisor


class Session:
    """A session whose requests are refused with these reasons, one after the other; then all is empty."""

    def __init__(self, *reasons: str) -> None:
        self._reasons = list(reasons)
        self.supervisor = TaskSupervisor()

    def watch_state(self, _: object) -> None:
        """It stays connected."""

    async def call(self, _: object) -> list[str]:
        """Refuse, or list nothing."""
        if self._reasons:
            raise Refused(self._reasons.pop(0))
        return []


async def test_a_refusal_is_logged_once_until_it_is_another_one() -> None:
    """It is asked for twice a second, for as long as an operator takes to mend it."""
    session: Any = Session("a", "a", "a", "b", "b")
    mirror = ZooKeeperMirror(session, {"/r/groups": 1}, lambda *_: None, lambda: None)
    with capture_logs() as logs:
        read = [await mirror._read_stale() for _ in range(6)]
    assert read == [False] * 5 + [True]
    assert [line["reason"] for line in logs] == ["a", "b"]

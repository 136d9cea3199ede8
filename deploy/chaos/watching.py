"""Asking the sidecars, and looking at their processes, twice a second while a run lasts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import httpx

from deploy.background import Background
from deploy.chaos.checker.history import Footprint, Word
from deploy.chaos.testbed import Testbed
from deploy.local import processes

_PERIOD_S = 0.5
#: How long a sidecar may take to answer; one that stands still does not.
_TIMEOUT_S = 1.0
_DIMENSION = "publishRateInMsgs"
#: The sidecar's task that checks its core, with ``check_invariants``.
_CHECKS = "invariants"
_TASKS = re.compile(r"^pulsar_quota_tasks(?:{.*})? (\d+)", re.MULTILINE)


class SidecarWatcher(Background):
    """Watches the sidecars while it is entered as a context; what it saw can be read at any time."""

    def __init__(self, testbed: Testbed) -> None:
        super().__init__({"watching": self._watch})
        self._sidecars = testbed.sidecars
        self._group = testbed.group
        self._brokers = tuple(testbed.brokers)
        # Appended to by one thread and read by another: a list's append is atomic.
        self.sweeps: list[Mapping[str, Word]] = []
        self.footprints: list[Footprint] = []

    def _watch(self) -> None:
        with (
            httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as client,
            ThreadPoolExecutor(len(self._brokers)) as pool,
        ):
            while not self._stop.wait(_PERIOD_S):
                words = pool.map(lambda name: self._ask(client, name), self._brokers)
                self.sweeps.append(dict(zip(self._brokers, words, strict=True)))
                looks = pool.map(partial(self._look, client), self._brokers)
                self.footprints += chain.from_iterable(looks)

    def _ask(self, client: httpx.Client, name: str) -> Word:
        url = f"{self._sidecars.admin_url(name)}/quota/v1"
        asked_s = time.monotonic()
        try:
            health = client.get(f"{url}/health").json()
            state, broken = health["state"], _broken(health["failedTasks"])
            usage = client.get(f"{url}/usage/{self._group}")
            certificates = client.get(f"{url}/certificate/{self._group}")
        except (httpx.TransportError, ValueError, KeyError):
            return Word(asked_s, time.monotonic())
        answered_s = time.monotonic()
        if usage.is_error or certificates.is_error:  # it has not read the groups yet
            return Word(asked_s, answered_s, state, broken=broken)
        return Word(
            asked_s,
            answered_s,
            state,
            _own_limit(usage.json(), name),
            self._certified(certificates.json()),
            broken,
        )

    def _look(self, client: httpx.Client, name: str) -> list[Footprint]:
        """Read the footprints of the sidecar's processes; none of a sidecar that does not answer."""
        try:
            pid = self._sidecars.pid(name)
            metrics = client.get(f"{self._sidecars.admin_url(name)}/metrics").text
        except (KeyError, httpx.TransportError):
            return []
        tasks = [int(found) for found in _TASKS.findall(metrics)]
        if not tasks:  # it has just begun
            return []
        found = []
        for process in processes.family(pid):
            with suppress(OSError):  # it has just ended
                own_tasks = sum(tasks) if process.pid == pid else 0
                found.append(_footprint(name, process.pid, own_tasks))
        return found

    def _certified(self, body: Any) -> int | None:
        for certificate in body["certificates"]:
            if certificate["dimension"] == _DIMENSION and certificate["most"] is not None:
                # On top, by each broker that is not seen there yet.
                newcomers = len(self._brokers) - 1
                return int(certificate["most"] + newcomers * certificate["newcomer"])
        return None


def _broken(failed_tasks: Any) -> str:
    """Return the reason of a core whose invariants did not hold; "" if they all did."""
    return next((str(task["reason"]) for task in failed_tasks if task["task"] == _CHECKS), "")


def _own_limit(usage: Any, name: str) -> int | None:
    for row in usage["brokers"]:
        if row["broker"] == name:
            return int(row["limits"][_DIMENSION])
    return None


def _footprint(name: str, pid: int, tasks: int) -> Footprint:
    """Read the footprint of a process; raises OSError if there is none."""
    of_process = Path(f"/proc/{pid}")
    return Footprint(
        sidecar=name,
        pid=pid,
        at_s=time.monotonic(),
        memory_bytes=processes.memory_bytes(pid),
        descriptors=sum(1 for _ in (of_process / "fd").iterdir()),
        threads=sum(1 for _ in (of_process / "task").iterdir()),
        tasks=tasks,
    )

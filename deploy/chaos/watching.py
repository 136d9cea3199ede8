"""Asking the sidecars, and looking at their processes, twice a second while a run lasts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from deploy.background import Background
from deploy.chaos.checker.history import Footprint, Word
from deploy.chaos.stage import Stage
from deploy.local import processes

_PERIOD_S = 0.5
#: A sidecar that stands still keeps nobody waiting.
_TIMEOUT_S = 1.0
_DIMENSION = "publishRateInMsgs"
_THREADS = re.compile(r"^Threads:\s+(\d+)", re.MULTILINE)
_TASKS = re.compile(r"^pulsar_quota_tasks (\d+)", re.MULTILINE)


class Watcher(Background):
    """Watches the sidecars while it is entered as a context; what it saw can be read at any time."""

    def __init__(self, stage: Stage) -> None:
        super().__init__({"watching": self._watch})
        self._sidecars = stage.sidecars
        self._group = stage.group
        self._brokers = tuple(stage.brokers)
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
                self.footprints += filter(
                    None, pool.map(partial(self._look, client), self._brokers)
                )

    def _ask(self, client: httpx.Client, name: str) -> Word:
        url = f"{self._sidecars.admin_url(name)}/quota/v1"
        asked_s = time.monotonic()
        try:
            state = client.get(f"{url}/health").json()["state"]
            usage = client.get(f"{url}/usage/{self._group}")
            certificates = client.get(f"{url}/certificate/{self._group}")
        except (httpx.TransportError, ValueError, KeyError):
            return Word(asked_s, time.monotonic())
        answered_s = time.monotonic()
        if usage.is_error or certificates.is_error:  # it has not read the groups yet
            return Word(asked_s, answered_s, state)
        return Word(
            asked_s,
            answered_s,
            state,
            _own_limit(usage.json(), name),
            self._certified(certificates.json()),
        )

    def _look(self, client: httpx.Client, name: str) -> Footprint | None:
        """What the sidecar's process takes by now; None if there is none, or it does not answer."""
        try:
            pid = self._sidecars.pid(name)
            of_process = Path(f"/proc/{pid}")
            resident = processes.resident_bytes(pid)
            descriptors = sum(1 for _ in (of_process / "fd").iterdir())
            status = (of_process / "status").read_text()
            metrics = client.get(f"{self._sidecars.admin_url(name)}/metrics").text
        except (KeyError, OSError, httpx.TransportError):
            return None
        threads, tasks = _number(_THREADS, status), _number(_TASKS, metrics)
        if threads is None or tasks is None:  # it ended, or has just begun
            return None
        return Footprint(name, pid, time.monotonic(), resident, descriptors, threads, tasks)

    def _certified(self, body: Any) -> int | None:
        for certificate in body["certificates"]:
            if certificate["dimension"] == _DIMENSION and certificate["most"] is not None:
                # On top, by each broker that is not seen there yet.
                newcomers = len(self._brokers) - 1
                return int(certificate["most"] + newcomers * certificate["newcomer"])
        return None


def _own_limit(usage: Any, name: str) -> int | None:
    for row in usage["brokers"]:
        if row["broker"] == name:
            return int(row["limits"][_DIMENSION])
    return None


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None

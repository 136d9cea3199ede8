"""The needs of rooms beside the launcher's jars: fetched and built once, before the room's time begins.

On a machine that has none of it yet this takes minutes, and a room's ten are for its tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from deploy.local import jars
from deploy.local.errors import LocalClusterError
from tests.clients.releases import HELD, JAVA_V5, SAMPLE, Unavailable, all_releases
from tests.jars import hdfs_jars, proxy_jars, s3_jars

Fetch = Callable[[], object]


def _of_clients(root: Path) -> Iterator[Fetch]:
    yield from (partial(jars.server_jars, version, root) for version in jars.TRIED_PULSARS)
    tried = {*SAMPLE, *HELD, *(f"java-v5 {version}" for version in JAVA_V5)}
    yield from (release.launch for release in all_releases() if release.name in tried)


def _of_ways(root: Path) -> Iterator[Fetch]:
    yield partial(proxy_jars, root)


def _of_spark(root: Path) -> Iterator[Fetch]:
    yield partial(s3_jars, root)
    yield partial(hdfs_jars, root)


FETCHES: Final = {
    "clients": _of_clients,
    "ways": _of_ways,
    "spark": _of_spark,
}
"""For each room what it fetches, given the cache's directory; others need what is fetched already."""


def fetch(room: str) -> None:
    """Fetch what a room needs; where that fails, the test that needs it says why."""
    of_room = FETCHES.get(room)
    for each in of_room(jars.cache_root(os.environ)) if of_room else ():
        with suppress(LocalClusterError, Unavailable):
            each()

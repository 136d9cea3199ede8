"""One job at a time writes to a place.

Each job writes a file of its own name there, and then looks for others'. A store that shows at once what
was written shows at least one of two the other's, and no store need know how to create a file only if it
is absent; of two that start at the same moment both may give way. A job writes its file anew every few
seconds, and deletes it at its end; one that is ``LEFT_S`` older than one's own was left by a job that was
killed. Ages are by the store's clock only.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.places import StorePlace, place_of
from spark_jobs.stores import Store, StoreFailure, output_store

CLAIM = ".writing."
"""The beginning of the name of such a file."""
LEFT_S = 120.0
_EVERY_S = 10.0


class PlaceTaken(OSError):
    """Another job writes there; the message says which file says so."""


@contextmanager
def writing(
    spark: SparkSession, out: str | os.PathLike[str] | StorePlace
) -> Iterator[tuple[StorePlace, Store]]:
    """Write to a place alone; yields it and its store, and raises as ``claimed`` does."""
    place = place_of(out)
    store = output_store(place, spark)
    with claimed(store, place):
        yield place, store


@contextmanager
def claimed(store: Store, out: StorePlace) -> Iterator[None]:
    """Write to a place alone.

    Raises:
        PlaceTaken: another job writes there.
        OSError: it cannot be written to.
    """
    claim = out / f"{CLAIM}{uuid.uuid4().hex}"
    content = f"{socket.gethostname()} process {os.getpid()}\n".encode()
    store.put(claim, content)
    ended = threading.Event()
    beats = threading.Thread(target=_beat, args=(store, claim, content, ended), daemon=True)
    try:
        _be_alone(store, out, claim)
        beats.start()
        yield
    finally:
        ended.set()
        if beats.is_alive():
            beats.join()
        with contextlib.suppress(OSError):
            store.remove(claim)


def _be_alone(store: Store, out: StorePlace, claim: StorePlace) -> None:
    claims = [file for file in store.here(out) if file.name.startswith(CLAIM)]
    now_s = next((file.written_s for file in claims if file.name == claim.name), None)
    if now_s is None:
        raise StoreFailure(f"{claim}: was written and is not there; what deletes files there?")
    for other in claims:
        if other.name == claim.name:
            continue
        if now_s - other.written_s < LEFT_S:
            raise PlaceTaken(
                f"another job writes there, or was killed within {LEFT_S:.0f} s: {other.place}"
                " says so; wait for it, or name another place"
            )
        store.remove(other.place)


def _beat(store: Store, claim: StorePlace, content: bytes, ended: threading.Event) -> None:
    while not ended.wait(_EVERY_S):
        with contextlib.suppress(OSError):  # the job itself finds out, if the store is gone
            store.put(claim, content)

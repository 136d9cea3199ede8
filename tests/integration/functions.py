"""A function of Pulsar Functions that copies its input to a topic, and the input for it."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pulsar

from deploy.background import Background
from deploy.local import jars
from deploy.local.requirements import find_java
from tests.integration import companions
from tests.integration.own_connections import connected
from tests.integration.world import TENANT, World, eventually

_RATE = 200
_NAMESPACE = f"{TENANT}/function-inputs"
_INPUT = f"persistent://{_NAMESPACE}/in"
_SOURCE = Path(__file__).with_name("CopyFunction.java")


@contextmanager
def copying(
    world: World, directory: Path, settings: dict[str, object], name: str, output: str
) -> Iterator[None]:
    """A worker as a process of its own, and on it a function that publishes `_RATE` per second.

    Args:
        world: its namespace is not that of the input, which has no limit.
        directory: for the worker's files, and the package.
        settings: of the worker.
        name: of the function.
        output: the topic that it publishes to; one message at a time, but in batches before 4.1.
    """
    world.topics.create_namespace(_NAMESPACE, bundles=4)
    with (
        connected(world.sidecars.service_url) as client,
        _Feeding(client),
        companions.functions_worker(world.cluster, directory, settings) as worker,
        _running(worker, name, _package(directory), output, world.cluster.state.pulsar_version),
    ):
        yield


def _package(directory: Path) -> Path:
    """Compile the function, and return its jar."""
    compiler = jars.compiler_jars(jars.cache_root(os.environ))
    subprocess.run(
        [
            *(find_java(os.environ), "-cp", f"{compiler}/*"),
            *("org.eclipse.jdt.internal.compiler.batch.Main", "--release", "17"),
            *("-d", str(directory), str(_SOURCE)),
        ],
        check=True,
    )
    jar = directory / "copy.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.write(directory / "CopyFunction.class", "CopyFunction.class")
    return jar


class _Feeding(Background):
    """Publishes the function's input."""

    def __init__(self, client: pulsar.Client) -> None:
        super().__init__({"feeding": self._feed})
        self._producer = client.create_producer(
            _INPUT, schema=pulsar.schema.StringSchema(), block_if_queue_full=True
        )

    def _feed(self) -> None:
        while not self._stop.wait(1 / _RATE):
            self._producer.send_async("x", lambda *_: None)


@contextmanager
def _running(worker: str, name: str, jar: Path, output: str, release: str) -> Iterator[None]:
    function: dict[str, object] = {
        "className": "CopyFunction",
        "inputs": [_INPUT],
        "output": output,
        "runtime": "JAVA",
        "processingGuarantees": "ATLEAST_ONCE",
        "subscriptionPosition": "Earliest",
    }
    if not release.startswith("4.0."):  # which refuses a function with a key that it does not know
        function["producerConfig"] = {"batchingConfig": {"enabled": False}}
    parts = {
        "functionConfig": (None, json.dumps(function), "application/json"),
        "url": (None, jar.as_uri(), "text/plain"),
    }
    path = f"{worker}/admin/v3/functions/{_NAMESPACE}/{name}"
    # Until it has read its own topics a worker refuses.
    eventually(
        lambda: httpx.post(path, files=parts, timeout=30.0, trust_env=False).is_success,
        "the worker takes the function",
    )
    try:
        yield
    finally:
        httpx.delete(path, timeout=30.0, trust_env=False)

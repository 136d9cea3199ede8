"""HDFS and a store that speaks S3, each in a process of its own on free ports of this host."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from deploy.local import jars
from tests.jars import hdfs_jars, s3_jars

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
_SPARKS = (
    "hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j",
    "log4j-slf4j2-impl", "log4j-api", "log4j-core",
)  # fmt: skip
_START_S = 240
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that has little to compute."""
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Of a few thousand rows most of a query is the compilation of its code."""


@dataclass(frozen=True)
class Hdfs:
    """The URLs of the root of an HDFS: by its own protocol, and by its web service."""

    root: str
    web: str


def s3_class_path() -> str:
    """The jars that Spark lacks for S3, as its option takes them."""
    directory = s3_jars(jars.cache_root(os.environ))
    return ",".join(str(path) for path in sorted(directory.glob("*.jar")))


@contextmanager
def s3() -> Iterator[str]:
    """A store; yields its host and port."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark_jobs.stores.s3_server"], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def make_bucket(endpoint: str, name: str) -> None:
    """Make a bucket."""
    request = urllib.request.Request(f"http://{endpoint}/{name}", method="PUT")
    with urllib.request.urlopen(request, timeout=60):
        pass


@contextmanager
def hdfs(place: Path) -> Iterator[Hdfs]:
    """A name node and a data node in one process."""
    web_port = free_port()
    details, log = place / "details.json", place / "log"
    java = shutil.which("java")
    assert java is not None
    command = [
        java, "-Xmx192m", *QUICK.split(), "-XX:-UsePerfData",
        f"-Dtest.build.data={place / 'data'}",
        "-cp", _hdfs_class_path(), "org.apache.hadoop.test.MiniDFSClusterManager",
        "-format", "-datanodes", "1", "-httpport", str(web_port), "-writeDetails", str(details),
    ]  # fmt: skip
    with log.open("wb") as out, subprocess.Popen(
        command, cwd=place, stdout=out, stderr=out, stdin=subprocess.DEVNULL
    ) as process:  # fmt: skip
        try:
            deadline = time.monotonic() + _START_S
            while not details.exists() or not details.read_text().rstrip().endswith("}"):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            port = json.loads(details.read_text())["namenode_port"]
            user = getpass.getuser()  # who may write below the root
            yield Hdfs(f"hdfs://127.0.0.1:{port}", f"webhdfs://{user}@127.0.0.1:{web_port}")
        finally:
            process.terminate()


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _hdfs_class_path() -> str:
    sparks = Path(pyspark.__file__).parent / "jars"
    own = hdfs_jars(jars.cache_root(os.environ))
    found = [path for name in _SPARKS for path in sparks.glob(f"{name}-[0-9]*.jar")]
    return os.pathsep.join(map(str, [*found, *sorted(own.glob("*.jar"))]))

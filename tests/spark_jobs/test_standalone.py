"""Jobs run as on a cluster: a master, two workers, spark-submit, and the code as a zip file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import spark_jobs
from tests.spark_jobs import plain
from tests.spark_jobs.test_convergence_report import START, STORY, UNKNOWN

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]
SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2
_START_S = 240


class Daemon:
    """A master or a worker, in a process group of its own."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(SPARK_HOME / "bin/spark-class"), *arguments],
                env=environment(),
                cwd=log.parent,
                start_new_session=True,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def says(self, what: str, times: int = 1) -> None:
        """Wait until its log has said these words this number of times."""
        deadline = time.monotonic() + _START_S
        while self.log.read_text().count(what) < times:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def stop(self) -> None:
        """End it with everything that it started."""
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(30)


def environment() -> dict[str, str]:
    """Of every process: everything on this host, and no code but Spark's own and the zip file's."""
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return kept | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


_FOREIGN = ("PYTHONPATH", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Daemon]]]:
    """The address of a master with two workers of a core each."""
    place, port = tmp_path_factory.mktemp("cluster"), free_port()
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    ports = ("--host", "127.0.0.1", "--webui-port", "0")
    daemons = [Daemon(place / "master.log", f"{deploy}.master.Master", *ports, "--port", str(port))]
    try:
        daemons[0].says("I have been elected leader")
        for number in range(WORKERS):
            work = place / f"worker-{number}"
            worker = Daemon(
                place / f"worker-{number}.log",
                f"{deploy}.worker.Worker", *ports, "--cores", "1", "--memory", "1g",
                "--work-dir", str(work), address,
            )  # fmt: skip
            daemons.append(worker)
        daemons[0].says("Registering worker", WORKERS)
        yield address, daemons[1:]
    finally:
        for daemon in reversed(daemons):
            daemon.stop()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as users zip it: nothing of the coordinator is in it."""
    package = Path(spark_jobs.__file__).parent
    path = tmp_path_factory.mktemp("zip") / "spark_jobs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for module in sorted(package.glob("*.py")):
            archive.write(module, f"spark_jobs/{module.name}")
    return path


def test_the_report_is_the_same_on_a_cluster(
    cluster: tuple[str, list[Daemon]], shipped: Path, story: Path, tmp_path: Path
) -> None:
    """Both workers compute, and the figures are those of an independent calculation."""
    address, workers = cluster
    main = tmp_path / "convergence_report.py"
    shutil.copy(Path(spark_jobs.__file__).with_name("convergence_report.py"), main)
    out = tmp_path / "report"
    settings = {
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
    }
    submitted = subprocess.run(
        [
            str(SPARK_HOME / "bin/spark-submit"), "--master", address,
            "--py-files", str(shipped),
            *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
            str(main), str(story), "--out", str(out),
        ],
        env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip

    assert submitted.returncode == 0, submitted.stderr[-3000:]
    for worker in workers:
        worker.says("Asked to launch executor")
    figures = json.loads((out / "figures.json").read_text())
    by_second = plain.seconds(story, "publishRateInMsgs", {0: 3000, START + 40: 6000})
    for event, (kinds, *moments) in zip(figures["events"], STORY, strict=True):
        expected = plain.figures(by_second, UNKNOWN, *(START + moment for moment in moments))
        assert event["kinds"] == kinds
        for name in ("utilisation", "jain", "min_share", "volume_over"):
            assert event[name] == pytest.approx(float(expected[name]), rel=1e-12), name

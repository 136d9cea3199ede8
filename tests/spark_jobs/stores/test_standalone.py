"""Jobs run as on a cluster: a master, two workers, spark-submit, and the code as a zip file.

Python is the machine's own, with what Spark and the jobs import, and without the project.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark
import pytest
from pyarrow.fs import FileType, S3FileSystem

import spark_jobs
from spark_jobs.places import StorePlace, place_of
from tests.spark_jobs import plain
from tests.spark_jobs.stores import servers
from tests.spark_jobs.stores.conftest import in_s3
from tests.spark_jobs.test_convergence_report import START, STORY, UNKNOWN

pytestmark = [pytest.mark.java, pytest.mark.verify, pytest.mark.slow, pytest.mark.timeout(900)]
SPARK_HOME = Path(pyspark.__file__).parent
PACKAGES = SPARK_HOME.parent
"""As a place to import from: what an installed project adds to the places is not followed there."""
PYTHON = str(
    Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
)
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
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(30)


def environment() -> dict[str, str]:
    """Of every process: everything on this host, and no code but Spark's own and the zip file's."""
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return kept | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": servers.QUICK,
        "PYSPARK_PYTHON": PYTHON,
        "PYSPARK_DRIVER_PYTHON": PYTHON,
        "PYTHONPATH": str(PACKAGES),
    }


_FOREIGN = ("PYTHONPATH", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Daemon]]]:
    """The address of a master with two workers of a core each."""
    place, port = tmp_path_factory.mktemp("cluster"), servers.free_port()
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
    """The packages as users zip them."""
    root = Path(spark_jobs.__file__).parents[1]
    path = tmp_path_factory.mktemp("zip") / "jobs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for pattern in ("spark_jobs/*.py", "spark_jobs/templates/*", "coordinator/**/*.py"):
            for file in sorted(root.glob(pattern)):
                archive.write(file, file.relative_to(root))
    return path


def submitted(
    address: str, shipped: Path, job: str, *arguments: str, options: Sequence[str] = ()
) -> list[str]:
    """The command of a user who submits a job to the cluster."""
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": servers.QUICK,
        "spark.executorEnv.PYTHONPATH": str(PACKAGES),
        "spark.driver.extraJavaOptions": servers.QUICK,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    return [
        str(SPARK_HOME / "bin/spark-submit"), "--master", address, "--py-files", str(shipped), *options,
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        job, *arguments,
    ]  # fmt: skip


def test_the_python_of_a_cluster_lacks_the_project() -> None:
    """So what a job imports there was shipped with it."""
    command = [PYTHON, "-c", "import pandas, pyarrow, spark_jobs"]
    failed = subprocess.run(
        command, env=environment(), cwd="/", capture_output=True, text=True, check=False
    )

    assert "No module named 'spark_jobs'" in failed.stderr


def test_a_replay_runs_on_executors_that_have_only_what_was_shipped(
    cluster: tuple[str, list[Daemon]], shipped: Path, story: Path, tmp_path: Path
) -> None:
    """The core plays the recorded demand again there, and says what it says at home."""
    job = tmp_path / "what_if.py"
    shutil.copy(Path(spark_jobs.__file__).with_name("what_if.py"), job)
    words = (str(story), "--set", "orders.publishRateInMsgs=5000", "--json")
    command = submitted(cluster[0], shipped, str(job), *words)
    log = tmp_path / "log"
    with log.open("w") as told, subprocess.Popen(
        command, env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=told, text=True,
        start_new_session=True,
    ) as running:  # fmt: skip
        try:
            said, _ = running.communicate(timeout=800)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode in {0, 1}, log.read_text()[-3000:]

    rows = json.loads(said)["rows"]
    changed = [row for row in rows if row["variant"] == "changed" and row["broker"] is None]
    assert changed
    assert all(0 < row["admitted"] <= 5000 for row in changed)


def test_the_report_is_the_same_on_a_cluster_that_loses_a_worker(
    cluster: tuple[str, list[Daemon]],
    shipped: Path,
    story: Path,
    in_a_bucket: str,
    s3_endpoint: str,
    tmp_path: Path,
) -> None:
    """From S3 to S3; the figures are those of an independent calculation on the rows of a directory."""
    address, workers = cluster
    main = tmp_path / "convergence_report.py"
    shutil.copy(Path(spark_jobs.__file__).with_name("convergence_report.py"), main)
    url = in_s3(s3_endpoint)
    out = place_of(url)
    jars = ("--jars", servers.s3_class_path())
    command = submitted(address, shipped, str(main), in_a_bucket, "--out", url, options=jars)
    log = tmp_path / "log"
    with log.open("wb") as said, subprocess.Popen(
        command, env=environment() | servers.CREDENTIALS, cwd=tmp_path, stdout=said, stderr=said,
        start_new_session=True,
    ) as running:  # fmt: skip
        try:
            for worker in workers:
                worker.says("Asked to launch executor")
            content(s3_endpoint, out / "parquet/limits/_SUCCESS", running, log)
            os.killpg(workers[1].process.pid, signal.SIGKILL)
            assert running.wait(800) == 0, log.read_text()[-3000:]
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)

    figures = json.loads(content(s3_endpoint, out / "figures.json", running, log))
    by_second = plain.seconds(story, "publishRateInMsgs", {0: 3000, START + 40: 6000})
    for event, (kinds, *moments) in zip(figures["events"], STORY, strict=True):
        expected = plain.figures(by_second, UNKNOWN, *(START + moment for moment in moments))
        assert event["kinds"] == kinds
        for name in ("utilisation", "jain", "min_share", "volume_over"):
            assert event[name] == pytest.approx(float(expected[name]), rel=1e-12), name


def content(endpoint: str, place: StorePlace, job: subprocess.Popen[bytes], log: Path) -> bytes:
    """Wait until a job has written an object, and return what is in it."""
    key, secret = servers.CREDENTIALS.values()
    store = S3FileSystem(
        access_key=key, secret_key=secret, endpoint_override=endpoint, scheme="http"
    )
    path = place.url.partition("://")[2]
    deadline = time.monotonic() + 2 * _START_S
    while store.get_file_info(path).type is not FileType.File:
        assert job.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)
    with store.open_input_stream(path) as stream:
        return bytes(stream.read())

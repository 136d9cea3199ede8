"""A small ZooKeeper of a test's own, to be killed, stopped and brought back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.security import make_digest_acl_credential

from deploy.local import commands, configuration, jars, readiness
from deploy.local.addresses import LOOPBACK
from deploy.local.commands import JavaRuntime
from deploy.local.configuration import ZooKeeperPeer
from deploy.local.ports import free_block
from deploy.local.requirements import find_java
from deploy.local.state import Server
from tests.pulsar_version import pulsar_version

_READY_TIMEOUT_S = 60.0
_POLL_S = 0.05
_SUPER_USER = ("super", "may delete what others protect")


class OwnZooKeeper:
    """One standalone server; its calls block, so tests run them in a thread.

    Args:
        directory: for its files.
        java_options: beyond those of every server.
        settings: lines of its configuration beyond those of every server.
    """

    def __init__(
        self, directory: Path, *java_options: str, settings: Mapping[str, object] | None = None
    ) -> None:
        port = free_block()[0]
        peer = ZooKeeperPeer(1, port, 0, 0)
        data = directory / "data"
        data.mkdir()
        conf = directory / "zoo.cfg"
        own = configuration.properties(settings or {})
        conf.write_text(configuration.zookeeper(peer, [peer], data) + own)
        logging = directory / "log4j2.xml"
        logging.write_text(configuration.logging("warn"))
        library = jars.server_jars(pulsar_version(), jars.cache_root(os.environ))
        runtime = JavaRuntime(find_java(os.environ), library, logging)
        self.hosts = f"{LOOPBACK}:{port}"
        self._port = port
        self._directory = directory
        java, *arguments = commands.zookeeper(runtime, conf, ensemble=False)
        super_user = make_digest_acl_credential(*_SUPER_USER)
        knows = f"-Dzookeeper.DigestAuthenticationProvider.superDigest={super_user}"
        self._command = (java, knows, *java_options, *arguments)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it serves sessions."""
        log_file = self._directory / "zookeeper.log"
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, cwd=self._directory
            )
        server = Server(
            name="zookeeper", port=self._port, log_file=str(log_file), command=self._command
        )
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while not readiness.zookeeper_ready(server):
            assert self._process.poll() is None, log_file.read_text()
            assert time.monotonic() < deadline_s, log_file.read_text()
            time.sleep(_POLL_S)

    def begin_anew(self) -> None:
        """Have it run and hold nothing, whatever has been done to it."""
        if self._process is None:
            self.start()
        self.thaw()
        client = KazooClient(self.hosts, auth_data=[("digest", ":".join(_SUPER_USER))])
        client.start()
        try:
            for name in set(client.get_children("/")) - {"zookeeper"}:
                client.delete(f"/{name}", recursive=True)
        finally:
            client.stop()
            client.close()

    def freeze(self) -> None:
        """Stop it from running; from the return on, connections stay open and get no answer."""
        assert self._process is not None
        self._send(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # until every thread has stopped

    def thaw(self) -> None:
        """Let it run on."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would, frozen or not; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

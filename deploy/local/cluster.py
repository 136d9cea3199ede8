"""The order in which a cluster comes up, changes and goes down.

Start: ZooKeeper, then the metadata, then the bookie, then all brokers at once; each stage waits for
the one before, because a broker that finds no metadata dies. Stop: the other way round. Every
operation holds the state directory's lock and writes cluster.json as it goes, so a `Cluster` is no
more than a handle: several of them, in several processes, may speak of the same cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from deploy.local import archive, commands, jars, layout, processes, readiness, state
from deploy.local.commands import JavaRuntime
from deploy.local.configuration import CLUSTER_NAME, tools
from deploy.local.errors import LocalClusterError, WrongUseError
from deploy.local.interruption import uninterrupted
from deploy.local.layout import ClusterOptions
from deploy.local.ports import free_block
from deploy.local.requirements import find_java
from deploy.local.state import Broker, ClusterState, Server

#: For each stage of the start.
_STAGE_S = 180.0
#: A broker hands its topics over on SIGTERM. One that has not managed by then is killed.
_STOP_GRACE_S = 20.0
_ARCHIVE_TIMEOUT_S = 60.0
_ADMIN_TIMEOUT_S = 120.0
_TOOLS = {"admin": commands.admin, "client": commands.client, "perf": commands.perf}


def default_state_dir() -> Path:
    """Return this user's directory under the system's temporary directory."""
    return Path(tempfile.gettempdir()) / f"pulsar-quota-local-{os.getuid()}"


class Cluster:
    """A handle on a cluster that was started in a state directory, by whomever.

    As a context manager it stops the cluster at the end, also when the body raises.
    """

    def __init__(self, state_dir: Path) -> None:
        """Speak of the cluster in this directory; nothing is read or started yet."""
        self.state_dir = state_dir.absolute()

    @classmethod
    def start(cls, options: ClusterOptions | None = None) -> Self:
        """Start a cluster and wait until every broker is ready.

        Raises:
            WrongUseError: the options make no sense, or a cluster runs in the directory already.
            MissingProgramError: there is no usable Java, or no Maven when it is needed.
            LocalClusterError: a process died or was too slow; all the others are stopped again,
                and the logs are kept.
        """
        options = options or ClusterOptions()
        options.validate()
        java = find_java(os.environ)
        library = jars.server_jars(options.pulsar, jars.cache_root(os.environ))
        cluster = cls(options.state_dir or default_state_dir())
        cluster._make_directory()
        with state.locked(cluster.state_dir):
            cluster._refuse_if_running()
            layout.clear(cluster.state_dir)
            logging = cluster.state_dir / "conf" / "log4j2.xml"
            classes = archive.archive_file(java, library)
            runtime = JavaRuntime(java, library, logging, classes)
            ports = free_block(host=options.host)
            state.write(layout.lay_out(options, cluster.state_dir, runtime, ports))
            try:
                cluster._bring_up(runtime, classes)
            except BaseException:
                # Interrupts included: whatever happens, nothing is left running.
                cluster._stop_processes()
                raise
        return cluster

    def __enter__(self) -> Self:
        """Return the handle itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the cluster and remove what it wrote, unless the body has done so already."""
        if state.file_of(self.state_dir).exists():
            self.stop()

    @property
    def state(self) -> ClusterState:
        """The cluster as cluster.json has it now; raises as `state.read`."""
        return state.read(self.state_dir)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers, alive or not, broker-1 first."""
        return self.state.brokers

    def broker(self, name: str) -> Broker:
        """Return the broker of this name.

        Raises:
            WrongUseError: there is none.
        """
        return self.state.broker(name)

    def web_url(self) -> str:
        """Return the admin REST address of the first broker."""
        return self.brokers[0].web_url

    def stop(self, *, keep: bool = False) -> None:
        """Stop every process, and remove what the cluster wrote unless `keep`.

        Raises:
            WrongUseError: there is no cluster.
        """
        with state.locked(self.state_dir):
            self._stop_processes()
            if keep:
                return
            layout.clear(self.state_dir)
            if not any(self.state_dir.iterdir()):
                self.state_dir.rmdir()

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to one server; after SIGKILL or SIGTERM wait until it is gone.

        Raises:
            WrongUseError: there is no such server, or it does not run.
            LocalClusterError: it did not end in time.
        """
        server = self.state.server(name)
        process = server.process
        if process is None or not processes.send_signal(process, number):
            raise WrongUseError(f"{name} does not run.")
        deadly = number in (signal.SIGKILL, signal.SIGTERM)
        if deadly and not processes.wait_until_gone(process, _STOP_GRACE_S):
            raise LocalClusterError(f"{name} still runs {_STOP_GRACE_S:.0f} s after {number.name}.")

    def start_server(self, name: str) -> None:
        """Start a server that does not run, on its own ports and data, and wait until it is ready.

        Raises:
            WrongUseError: there is no such server, or it runs.
            LocalClusterError: it died, or was not ready in time.
        """
        with state.locked(self.state_dir):
            if self.state.server(name).alive:
                raise WrongUseError(f"{name} runs already.")
            self._launch([name])

    def restart(self, name: str) -> None:
        """End a server if it runs, wait for its process, and start it again; raises as above."""
        with state.locked(self.state_dir):
            process = self.state.server(name).process
            if process is not None:
                processes.stop_all([process], _STOP_GRACE_S)
            self._launch([name])

    def admin(self, *arguments: str, url: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run pulsar-admin and return its result, whatever its exit code.

        Args:
            arguments: as on its command line, such as "tenants", "list".
            url: the web service to ask; the first broker's when None.

        Raises:
            LocalClusterError: it took longer than two minutes.
        """
        command = self.tool_command("admin", arguments, web_url=url)
        try:
            return subprocess.run(
                command, capture_output=True, text=True, timeout=_ADMIN_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise LocalClusterError(f"pulsar-admin {' '.join(arguments)} hangs.") from error

    def tool_command(
        self,
        tool: str,
        arguments: Sequence[str],
        web_url: str | None = None,
        broker_url: str | None = None,
    ) -> tuple[str, ...]:
        """Return the command line of "admin", "client" or "perf", fetching its jars if need be."""
        first = self.brokers[0]
        library = jars.tool_jars(jars.cache_root(os.environ))
        conf_dir = self.state_dir / "conf"
        text = tools(web_url or first.web_url, broker_url or first.service_url)
        # One file per address, so that two calls at once do not overwrite each other's.
        conf = conf_dir / f"client-{zlib.crc32(text.encode()):08x}.conf"
        conf.write_text(text)
        runtime = JavaRuntime(Path(self.state.java), library, conf_dir / "log4j2.xml")
        return _TOOLS[tool](runtime, conf, arguments)

    def _make_directory(self) -> None:
        try:
            self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise WrongUseError(
                f"{self.state_dir} cannot be made a directory ({error.strerror}); "
                "name another --state-dir."
            ) from error

    def _refuse_if_running(self) -> None:
        if not state.file_of(self.state_dir).exists():
            return
        running = [server.name for server in self.state.servers if server.alive]
        if running:
            raise WrongUseError(
                f"A cluster runs in {self.state_dir} already ({', '.join(running)}); "
                "stop it with `down`, or name another --state-dir."
            )

    def _bring_up(self, runtime: JavaRuntime, classes: Path) -> None:
        planned = self.state
        self._launch([server.name for server in planned.zookeepers])
        self._write_metadata(runtime, planned)
        self._launch([planned.bookie.name])
        if not classes.exists():
            self._write_archive(planned.brokers[0], classes)
        self._launch([broker.name for broker in planned.brokers])

    def _write_archive(self, broker: Broker, classes: Path) -> None:
        print("Preparing a class archive for the brokers, once.", file=sys.stderr)
        partial = classes.with_name(f"{classes.name}.{os.getpid()}.part")
        try:
            self._launch([broker.name], archive.writing(broker.command, classes, partial))
            process = self.state.server(broker.name).process
            assert process is not None
            processes.stop_all([process], _ARCHIVE_TIMEOUT_S)
            # A Java that cannot write archives is no reason to fail; one that was killed wrote a part.
            was_killed = processes.exit_code(process) == -signal.SIGKILL
            if partial.exists() and not was_killed:
                partial.rename(classes)
        finally:
            partial.unlink(missing_ok=True)

    def _write_metadata(self, runtime: JavaRuntime, planned: ClusterState) -> None:
        first = planned.brokers[0]
        connect = ",".join(f"{first.advertised}:{each.port}" for each in planned.zookeepers)
        command = commands.metadata_setup(
            runtime, CLUSTER_NAME, connect, first.web_url, first.service_url
        )
        log_file = self.state_dir / "logs" / "metadata.log"
        failed = f"The cluster's metadata could not be written; the end of {log_file}:"
        with log_file.open("wb") as log:
            try:
                subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.state_dir / "run",
                    timeout=_STAGE_S,
                    check=True,
                )
            except subprocess.SubprocessError as error:
                raise LocalClusterError(f"{failed}\n{processes.tail(log_file)}") from error

    def _launch(self, names: Sequence[str], command: Sequence[str] | None = None) -> None:
        for name in names:
            server = self.state.server(name)
            process = processes.start(
                command or server.command, Path(server.log_file), self.state_dir / "run"
            )
            state.write(self.state.with_process(name, process))
        launched: list[Server] = [self.state.server(name) for name in names]
        readiness.wait_until_ready(launched, _STAGE_S)

    @uninterrupted()
    def _stop_processes(self) -> None:
        planned = self.state
        for stage in (planned.brokers, (planned.bookie,), planned.zookeepers):
            running = [server.process for server in stage if server.process is not None]
            processes.stop_all(running, _STOP_GRACE_S)

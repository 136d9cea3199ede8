"""The command line of every process: main class, memory, Java options.

A server's command holds absolute paths only, so it can be written into cluster.json and run again
from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.local import archive

#: What Pulsar's own start script passes to Java 17, for Netty's and the load report's sake.
_OPENED_MODULES = (
    "java.base/java.nio=ALL-UNNAMED",
    "java.base/jdk.internal.misc=ALL-UNNAMED",
    "java.base/java.lang=ALL-UNNAMED",
    "java.base/sun.net=ALL-UNNAMED",
    "java.management/sun.management=ALL-UNNAMED",
    "jdk.management/com.sun.management.internal=ALL-UNNAMED",
)

#: For what is over in seconds or has little to do: compiling in full would not pay for itself.
QUICK = "-XX:TieredStopAtLevel=1"

_DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
#: Without them BookKeeper does not know what a metadata store is.
METADATA_DRIVERS = (
    f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}BookieDriver",
    f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}ClientDriver",
)


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """The common part of all commands of a cluster.

    Attributes:
        java: the `java` program.
        jars: the directory with the class path.
        logging: the log4j2 configuration.
        classes: the class archive that fits this class path; None for none.
    """

    java: Path
    jars: Path
    logging: Path
    classes: Path | None = None

    def command(
        self, memory: Sequence[str], main_class: str, arguments: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the command that runs a main class, `memory` being options for Java itself."""
        return (
            str(self.java),
            *([archive.use(self.classes)] if self.classes else []),
            *memory,
            # One collector thread: the parallel collectors would start two per process, for
            # heaps that are small enough to be collected in milliseconds.
            "-XX:+UseSerialGC",
            # A process that cannot get memory must be seen to die, not limp on.
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dio.netty.leakDetection.level=disabled",
            *(f"--add-opens={module}" for module in _OPENED_MODULES),
            f"-Dlog4j.configurationFile={self.logging}",
            "-cp",
            f"{self.jars}/*",
            main_class,
            *arguments,
        )


def zookeeper(runtime: JavaRuntime, conf: Path, *, ensemble: bool) -> tuple[str, ...]:
    """Return the command of a ZooKeeper, alone or one of several."""
    main = "quorum.QuorumPeerMain" if ensemble else "ZooKeeperServerMain"
    memory = ["-Xmx64m", QUICK]
    return runtime.command(memory, f"org.apache.zookeeper.server.{main}", [str(conf)])


def metadata_setup(
    runtime: JavaRuntime, cluster: str, zookeeper_connect: str, web_url: str, broker_url: str
) -> tuple[str, ...]:
    """Return the command that writes a new cluster's metadata, then ends."""
    store = f"zk:{zookeeper_connect}"
    options = {
        "--cluster": cluster,
        "--metadata-store": store,
        "--configuration-metadata-store": store,
        "--web-service-url": web_url,
        "--broker-service-url": broker_url,
    }
    arguments = [word for option in options.items() for word in option]
    memory = ["-Xmx128m", QUICK]
    return runtime.command(memory, "org.apache.pulsar.PulsarClusterMetadataSetup", arguments)


def bookie(runtime: JavaRuntime, conf: Path, *, quick: bool) -> tuple[str, ...]:
    """Return the command of the bookie, compiling quickly or in full."""
    memory = ["-Xmx256m", "-XX:MaxDirectMemorySize=128m", *METADATA_DRIVERS]
    memory += [QUICK] if quick else []
    return runtime.command(memory, "org.apache.bookkeeper.server.Main", ["--conf", str(conf)])


def broker(
    runtime: JavaRuntime, conf: Path, java_options: Sequence[str], *, quick: bool
) -> tuple[str, ...]:
    """Return the command of a broker, compiling quickly or in full; `java_options` win over ours."""
    memory = ["-Xmx384m", "-XX:MaxDirectMemorySize=192m", *([QUICK] if quick else [])]
    memory += java_options
    return runtime.command(
        memory, "org.apache.pulsar.PulsarBrokerStarter", ["--broker-conf", str(conf)]
    )


def admin(runtime: JavaRuntime, conf: Path, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command of one call of pulsar-admin."""
    main = "org.apache.pulsar.admin.cli.PulsarAdminTool"
    return runtime.command(["-Xmx128m", QUICK], main, [str(conf), *arguments])


def client(runtime: JavaRuntime, conf: Path, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command of pulsar-client; `arguments` start with `produce` or `consume`."""
    main = "org.apache.pulsar.client.cli.PulsarClientTool"
    return runtime.command(["-Xmx256m", QUICK], main, [str(conf), *arguments])


def perf(runtime: JavaRuntime, conf: Path, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command of pulsar-perf; `arguments` start with `produce` or `consume`."""
    if not arguments:
        return runtime.command(["-Xmx64m"], "org.apache.pulsar.testclient.PulsarPerfTestTool", [])
    memory = ["-Xmx768m", "-XX:MaxDirectMemorySize=512m"]
    return runtime.command(
        memory, "org.apache.pulsar.testclient.PulsarPerfTestTool", [str(conf), *arguments]
    )

"""Where the class path comes from: Maven resolves it once, a directory per version keeps it.

A directory in the cache is complete or absent: Maven fills a neighbour, which is renamed when Maven
has succeeded. A file lock makes a second process wait for the first instead of fetching as well.
No repository is named here; Maven uses its defaults and the user's own settings.

The command-line tools have a directory of their own. Their versions are mixed, because no single
one of 4.0.7 and 4.0.8 has all its artifacts published, and mixed into a broker's directory
pulsar-admin dies with NoSuchFieldError.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.local.errors import LocalClusterError, WrongUseError
from deploy.local.processes import tail
from deploy.local.requirements import find_maven

#: The version of Pulsar that is started when none is named.
DEFAULT_PULSAR = "4.2.4"
#: The versions that the launcher is tried with; others may well work.
TRIED_PULSARS = ("4.2.4", "4.0.7", "5.0.0-M1")

#: By version of Pulsar: libraries whose version in its own table is too old for it, as (group, artifact,
#: version). The table of 5.0.0-M1 has jackson-annotations 2.18.0, and its Jackson needs a class of 2.21.
_NEWER_LIBRARIES = {
    "5.0.0-M1": (("com.fasterxml.jackson.core", "jackson-annotations", "2.21"),),
}

#: A compiler that needs no more than a Java Runtime.
_COMPILER = "3.42.0"

#: The only release of Pulsar's proxy whose artifact is published.
PROXY = "4.0.8"
_PROXY_LOG4J = "2.23.1"
#: By version, the libraries of Pulsar that it needs: some of its own release are not published.
_PROXY_LIBRARIES = {
    PROXY: (
        "bouncy-castle-bc",
        "pulsar-broker-common",
        "pulsar-client-admin-api",
        "pulsar-client-api",
        "pulsar-client-original",
        "pulsar-common",
        "pulsar-config-validation",
        "pulsar-metadata",
        "pulsar-websocket",
    ),
    "4.0.7": ("pulsar-client-messagecrypto-bc", "pulsar-docs-tools", "pulsar-opentelemetry"),
}
_PROXY_TABLE = "4.0.7"

_TOOLS = "4.0.8"
_TOOLS_LIBRARIES = "4.0.7"
_TOOLS_LIBRARY_ARTIFACTS = (
    "pulsar-broker",
    "pulsar-client-tools-api",
    "pulsar-client-original",
    "pulsar-client-admin-original",
    "pulsar-client-messagecrypto-bc",
    "pulsar-cli-utils",
)

#: Spark's own Hadoop, and what Spark lacks to read and write S3; the modules of Amazon's SDK in place of
#: the bundle that Hadoop names, which has thirty times their size.
HADOOP = "3.5.0"
_S3_JARS = (
    ("org.apache.hadoop", "hadoop-aws", HADOOP),
    ("org.apache.spark", "spark-hadoop-cloud_2.13", "4.1.1"),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
)
_S3_MODULES = ("s3", "s3-transfer-manager", "sts")
_S3_SDK = "2.35.4"
_JUNIT = "5.11.4"

_ALONE = (
    "<exclusions><exclusion><groupId>org.apache.pulsar</groupId>"
    "<artifactId>*</artifactId></exclusion></exclusions>"
)
"""Leaves out an artifact's own Pulsar libraries."""

_BARE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
_WITHOUT_SPARKS = (
    "<exclusions><exclusion><groupId>io.netty</groupId><artifactId>*</artifactId></exclusion>"
    "<exclusion><groupId>org.slf4j</groupId><artifactId>*</artifactId></exclusion>"
    "<exclusion><groupId>commons-codec</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar-quota.local</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
{body}
</project>
"""


def cache_root(environment: Mapping[str, str]) -> Path:
    """Return where jars are kept: PULSAR_QUOTA_CACHE, or .cache/pulsar-quota at home."""
    named = environment.get("PULSAR_QUOTA_CACHE")
    return Path(named).absolute() if named else Path.home() / ".cache" / "pulsar-quota"


def is_version(text: str) -> bool:
    """Say whether this looks like a version of Pulsar."""
    return re.fullmatch(r"\d+\.\d+\.\d+(?:[.-]\w+)*", text) is not None


def server_jars(version: str, root: Path) -> Path:
    """Return the directory with the jars of broker, bookie and ZooKeeper, fetching it if need be.

    Raises:
        WrongUseError: `version` does not look like one.
        MissingProgramError: it must be fetched and there is no Maven.
        LocalClusterError: Maven failed.
    """
    if not is_version(version):
        raise WrongUseError(f"{version!r} is not a version of Pulsar, such as {DEFAULT_PULSAR}.")
    return _ensure(root / f"pulsar-{version}", _server_pom(version))


def tool_jars(root: Path) -> Path:
    """Return the directory with the jars of pulsar-admin and pulsar-perf; raises as above."""
    return _ensure(root / f"pulsar-tools-{_TOOLS}", _tools_pom())


def proxy_jars(root: Path) -> Path:
    """Return the directory with the jars of Pulsar's proxy; raises as above."""
    return _ensure(root / f"pulsar-proxy-{PROXY}", _proxy_pom())


def compiler_jars(root: Path) -> Path:
    """Return the directory with the jar of a Java compiler; raises as above."""
    compiler = _dependency("ecj", _COMPILER, group="org.eclipse.jdt")
    pom = _POM.format(body=f"<dependencies>{compiler}</dependencies>")
    return _ensure(root / f"ecj-{_COMPILER}", pom)


def s3_jars(root: Path) -> Path:
    """Return the directory with what Spark lacks to read and write S3; raises as above."""
    jars = "".join(
        _dependency(name, number, _BARE, group=group) for group, name, number in _S3_JARS
    )
    # Spark brings the others, newer.
    modules = "".join(
        _dependency(name, _S3_SDK, _WITHOUT_SPARKS, group="software.amazon.awssdk")
        for name in _S3_MODULES
    )
    pom = _POM.format(body=f"<dependencies>{jars}{modules}</dependencies>")
    return _ensure(root / f"hadoop-s3-{HADOOP}", pom)


def hdfs_jars(root: Path) -> Path:
    """Return the directory with what HDFS needs beside the jars of Spark; raises as above."""
    hdfs = _dependency("hadoop-client-minicluster", HADOOP, _BARE, group="org.apache.hadoop")
    # A class that the mini-cluster loads names one of its.
    junit = _dependency("junit-jupiter-api", _JUNIT, group="org.junit.jupiter")
    pom = _POM.format(body=f"<dependencies>{hdfs}{junit}</dependencies>")
    return _ensure(root / f"hadoop-hdfs-{HADOOP}", pom)


def client_jars(artifact: str, version: str, root: Path) -> Path:
    """Return the directory with the jars of a client library of some release; raises as above."""
    managed = f"<dependencies>{_newer_libraries(version)}</dependencies>"
    body = (
        f"<dependencyManagement>{managed}</dependencyManagement>\n"
        f"<dependencies>{_dependency(artifact, version)}</dependencies>"
    )
    return _ensure(root / f"{artifact}-{version}", _POM.format(body=body))


def _server_pom(version: str) -> str:
    # Without Pulsar's own version table Maven mixes two OpenTelemetry versions and the broker dies.
    table = _dependency("pulsar", version, "<type>pom</type><scope>import</scope>")
    broker = _dependency("pulsar-broker", version)
    # What the pom itself names wins over the table that it imports.
    managed = f"<dependencies>{_newer_libraries(version)}{table}</dependencies>"
    return _POM.format(
        body=f"<dependencyManagement>{managed}</dependencyManagement>\n"
        f"<dependencies>{broker}</dependencies>"
    )


def _newer_libraries(version: str) -> str:
    return "".join(
        _dependency(artifact, number, group=group)
        for group, artifact, number in _NEWER_LIBRARIES.get(version, ())
    )


def _proxy_pom() -> str:
    table = _dependency("pulsar", _PROXY_TABLE, "<type>pom</type><scope>import</scope>")
    proxy = _dependency("pulsar-proxy", PROXY, _ALONE)
    libraries = "".join(
        _dependency(artifact, version, _ALONE)
        for version, artifacts in _PROXY_LIBRARIES.items()
        for artifact in artifacts
    )
    # The proxy's own pom leaves it to the image to bring one.
    log = _dependency("log4j-slf4j2-impl", _PROXY_LOG4J, group="org.apache.logging.log4j")
    return _POM.format(
        body=f"<dependencyManagement><dependencies>{table}</dependencies></dependencyManagement>\n"
        f"<dependencies>{proxy}{libraries}{log}</dependencies>"
    )


def _tools_pom() -> str:
    tools = [_dependency(a, _TOOLS, _ALONE) for a in ("pulsar-client-tools", "pulsar-testclient")]
    libraries = [_dependency(a, _TOOLS_LIBRARIES) for a in _TOOLS_LIBRARY_ARTIFACTS]
    # Maven takes the nearest and then the first: the order decides whose transitive versions win.
    everything = "\n".join([libraries[0], *tools, *libraries[1:]])
    return _POM.format(body=f"<dependencies>{everything}</dependencies>")


def _dependency(
    artifact: str, version: str, more: str = "", *, group: str = "org.apache.pulsar"
) -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


def _ensure(directory: Path, pom: str) -> Path:
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _locked(directory.with_name(f"{directory.name}.lock")):
        # The holder of the lock before us may have been fetching the same.
        if not directory.is_dir():
            _fetch(directory, pom)
    return directory


def _fetch(directory: Path, pom: str) -> None:
    maven = find_maven(os.environ)
    print(f"Fetching {directory.name} with Maven, once; this takes a minute.", file=sys.stderr)
    # Left behind by a fetch that was killed. No other process is in it, for we hold the lock.
    partial = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    (partial / "pom.xml").write_text(pom)
    log = partial / "maven.log"
    command = [str(maven), "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    with log.open("wb") as output:
        result = subprocess.run(
            [*command, f"-DoutputDirectory={partial / 'jars'}"],
            cwd=partial,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if result.returncode != 0:
        raise LocalClusterError(f"Maven could not fetch {directory.name}:\n{tail(log)}")
    (partial / "jars").rename(directory)
    shutil.rmtree(partial)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

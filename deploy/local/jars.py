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

ALONE = (
    "<exclusions><exclusion><groupId>org.apache.pulsar</groupId>"
    "<artifactId>*</artifactId></exclusion></exclusions>"
)
"""Leaves out an artifact's own Pulsar libraries."""

POM = """\
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
    return ensure(root / f"pulsar-{version}", _server_pom(version))


def tool_jars(root: Path) -> Path:
    """Return the directory with the jars of pulsar-admin and pulsar-perf; raises as above."""
    return ensure(root / f"pulsar-tools-{_TOOLS}", _tools_pom())


def compiler_jars(root: Path) -> Path:
    """Return the directory with the jar of a Java compiler; raises as above."""
    compiler = dependency("ecj", _COMPILER, group="org.eclipse.jdt")
    pom = POM.format(body=f"<dependencies>{compiler}</dependencies>")
    return ensure(root / f"ecj-{_COMPILER}", pom)


def _server_pom(version: str) -> str:
    # Without Pulsar's own version table Maven mixes two OpenTelemetry versions and the broker dies.
    table = dependency("pulsar", version, "<type>pom</type><scope>import</scope>")
    broker = dependency("pulsar-broker", version)
    # What the pom itself names wins over the table that it imports.
    managed = f"<dependencies>{newer_libraries(version)}{table}</dependencies>"
    return POM.format(
        body=f"<dependencyManagement>{managed}</dependencyManagement>\n"
        f"<dependencies>{broker}</dependencies>"
    )


def newer_libraries(version: str) -> str:
    """Return the dependencies that a version of Pulsar needs newer than its table has them."""
    return "".join(
        dependency(artifact, number, group=group)
        for group, artifact, number in _NEWER_LIBRARIES.get(version, ())
    )


def _tools_pom() -> str:
    tools = [dependency(a, _TOOLS, ALONE) for a in ("pulsar-client-tools", "pulsar-testclient")]
    libraries = [dependency(a, _TOOLS_LIBRARIES) for a in _TOOLS_LIBRARY_ARTIFACTS]
    # Maven takes the nearest and then the first: the order decides whose transitive versions win.
    everything = "\n".join([libraries[0], *tools, *libraries[1:]])
    return POM.format(body=f"<dependencies>{everything}</dependencies>")


def dependency(
    artifact: str, version: str, more: str = "", *, group: str = "org.apache.pulsar"
) -> str:
    """Return a dependency of a pom."""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


def ensure(directory: Path, pom: str) -> Path:
    """Return a directory with the jars that a pom names, fetching it if need be."""
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

"""The clients to try: every one pinned, fetched once, each in a directory of its own in the cache.

Python's are wheels of PyPI, unpacked beside the environment of the tests and not into it. Java's come
from Maven Central; their programme is compiled against each release by a compiler that needs no JDK.
Go's is built by the `go` of this machine, where there is one. What cannot be had is said, not passed
over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local import jars
from deploy.local.requirements import find_java
from tests.jars import client_jars

PROGRAMS = Path(__file__).with_name("programs")
_ROOT = Path(__file__).resolve().parents[2]

PYTHON = ("3.2.0", "3.4.0", "3.7.0", "3.10.0", "3.13.0")
"""Of pulsar-client: an old one, the newest, and some between (C++ 3.2 to 4.2).

3.1.0, the oldest for Python 3.11, hangs by itself: it holds the interpreter's lock in asynchronous calls
(apache/pulsar-client-python#122, mended by #123 in 3.2.0).
"""

JAVA = (
    "2.8.4", "2.9.3", "2.10.6", "2.11.4", "3.0.7", "3.3.9", "4.0.13", "4.2.4"
)  # fmt: skip
"""Of pulsar-client, shaded: the last of each minor release whose parent pom Maven Central has, too."""

JAVA_V5 = ("5.0.0-M1",)
"""Of pulsar-client-v5, which knows scalable topics; it needs brokers of its release."""

_FASTAVRO = "fastavro==1.9.7"
"""For Avro schemas; what old releases ask for themselves has no wheel any more."""

GO = ("v0.19.0",)

SAMPLE = ("python 3.13.0", "java 2.8.4", "java 4.2.4")
"""Those that `make verify` tries with every scene; `make clients` tries all."""

HELD = ("python 3.13.0", "java 4.2.4", *(f"go {version}" for version in GO if shutil.which("go")))
"""Those that end while a gate holds messages of theirs; Go's where this machine has a `go`."""

_OPENED = (
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/sun.net",
    "java.base/jdk.internal.misc",
)


class Unavailable(Exception):
    """A client cannot be had on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The command that starts a client's programme; service URL, namespace and scenes follow."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """One client of one release."""

    family: str
    version: str
    prepare: Callable[[str], Launch]
    #: The beginning of the version of the brokers that it needs.
    brokers: str = ""

    @property
    def name(self) -> str:
        """Return its name in tables, such as `java 2.8.4`."""
        return f"{self.family} {self.version}"

    def launch(self) -> Launch:
        """Fetch and build what is missing.

        Raises:
            Unavailable: it cannot be had.
        """
        return self.prepare(self.version)


def all_releases() -> list[Release]:
    """Every client, oldest first within its family."""
    return [
        *(Release("python", version, _python) for version in PYTHON),
        *(Release("java", version, _java) for version in JAVA),
        *(Release("java-v5", version, _java_v5, brokers="5.") for version in JAVA_V5),
        *(Release("go", version, _go) for version in GO),
    ]


def _cache() -> Path:
    return jars.cache_root(os.environ) / "clients"


def _python(version: str) -> Launch:
    directory = _cache() / f"python-{version}"
    if not directory.is_dir():
        partial = directory.with_name(f"{directory.name}.{os.getpid()}.part")
        command = [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *(
                "--only-binary",
                ":all:",
                "--target",
                str(partial),
                f"pulsar-client=={version}",
                _FASTAVRO,
            ),
        ]
        _run(command, Path.cwd())
        _keep(partial, directory)
    program = (sys.executable, "-m", "tests.clients.programs.client")
    return Launch(program, {"PYTHONPATH": f"{directory}{os.pathsep}{_ROOT}"})


def java_program(version: str, source: str) -> Launch:
    """Return the command that starts one of the programmes with this release of Java's client.

    Raises:
        Unavailable: it cannot be had.
    """
    library = client_jars("pulsar-client", version, _cache())
    return _compiled(library, PROGRAMS / "java" / source)


def _java(version: str) -> Launch:
    return java_program(version, "ClientProgram.java")


def _java_v5(version: str) -> Launch:
    library = client_jars("pulsar-client-v5", version, _cache())
    return _compiled(library, PROGRAMS / "java" / "ClientProgramV5.java")


def _compiled(library: Path, source: Path) -> Launch:
    """The programme as it is now, compiled against these jars."""
    java = str(find_java(os.environ))
    classes = library.with_name(f"{library.name}-classes")
    compiled = classes / f"{source.stem}.class"
    if not compiled.is_file() or compiled.stat().st_mtime < source.stat().st_mtime:
        compiler = jars.compiler_jars(jars.cache_root(os.environ))
        classes.mkdir(exist_ok=True)
        _run(
            [
                *(java, "-cp", f"{compiler}/*", "org.eclipse.jdt.internal.compiler.batch.Main"),
                *("--release", "17", "-nowarn", "-proc:none", "-d", str(classes)),
                *("-cp", ":".join(str(jar) for jar in library.glob("*.jar")), str(source)),
            ],
            classes,
        )
    return Launch(
        (
            *(java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *(f"--add-opens={module}=ALL-UNNAMED" for module in _OPENED),
            *("-Dio.netty.tryReflectionSetAccessible=true", "-cp", f"{classes}:{library}/*"),
            source.stem,
        )
    )


def _go(version: str) -> Launch:
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no `go` program was found: install Go 1.24 or newer")
    source = PROGRAMS / "go" / "main.go"
    directory = _cache() / f"go-{version}"
    program = directory / "client"
    if not program.is_file() or program.stat().st_mtime < source.stat().st_mtime:
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, directory)
        module = "github.com/apache/pulsar-client-go"
        (directory / "go.mod").write_text(
            f"module client\n\ngo 1.24.0\n\nrequire {module} {version}\n"
        )
        _run([go, "mod", "tidy"], directory)
        _run([go, "build", "-o", "client", "."], directory)
    return Launch((str(program),))


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:4])} failed: {(done.stderr or done.stdout)[-1000:]}")


def _keep(partial: Path, directory: Path) -> None:
    """Name what was fetched, unless another process has been faster."""
    try:
        partial.rename(directory)
    except OSError:
        shutil.rmtree(partial)

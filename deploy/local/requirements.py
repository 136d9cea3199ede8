"""The programs that must be on the machine, and how to get them: the one list of them.

``python -m deploy.local.requirements TASK...`` looks for what the tasks need before anything else is
done: a missing program is said within a second, not after a download or half an hour of tests. As
root on Debian it installs what is missing; elsewhere it prints the line that does. `JAVA_HOME` wins
over `PATH`, as it does for Maven itself. A Python or a Java that is newer than those tried is said, and
used all the same.

Exit codes: 0 all is there, 2 something is missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local.errors import MissingProgramError

#: Pulsar 4.x is compiled to class files of this Java version.
MINIMUM_JAVA = 17
#: The newest with which clusters of all tried Pulsars were started.
NEWEST_TRIED_JAVA = 25
#: The newest with which the tests have passed that need no cluster.
NEWEST_TRIED_PYTHON = (3, 13)

_SYSTEMS = {
    "apt-get install": "Debian, Ubuntu",
    "dnf install": "Fedora, RHEL",
    "apk add": "Alpine",
    "pacman -S": "Arch",
}


def find_java(environment: Mapping[str, str]) -> Path:
    """Return the path of a usable `java` program.

    Raises:
        MissingProgramError: there is none, or it is older than 17.
    """
    home = environment.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise MissingProgramError(f"No `java` program was found.\n{_how_to_get_pulsar()}")
    version = _java_version(Path(found))
    if version is None:
        raise MissingProgramError(f"{found} does not say its version.\n{_how_to_get_pulsar()}")
    if version < MINIMUM_JAVA:
        raise MissingProgramError(
            f"{found} is Java {version}; Pulsar needs {MINIMUM_JAVA} or later.\n"
            f"{_how_to_get_pulsar()}"
        )
    return Path(found)


def find_maven(environment: Mapping[str, str]) -> Path:
    """Return the path of the `mvn` program.

    Raises:
        MissingProgramError: there is none.
    """
    found = shutil.which("mvn", path=environment.get("PATH", ""))
    if found is None:
        raise MissingProgramError(f"No `mvn` program (Maven) was found.\n{_how_to_get_pulsar()}")
    return Path(found)


def find_chromium(environment: Mapping[str, str]) -> Path:
    """Return the path of a Chromium, by any of the names that distributions give it.

    Raises:
        MissingProgramError: there is none.
    """
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name, path=environment.get("PATH", ""))
        if found is not None:
            return Path(found)
    raise MissingProgramError("No Chromium was found.")


def parse_java_version(text: str) -> int | None:
    """Return the feature version in the output of `java -version`; Java 8 calls itself 1.8."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _java_version(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(answer.stderr + answer.stdout)


def _find_venv(_environment: Mapping[str, str]) -> None:
    """Debian packs what `python -m venv` needs apart from Python."""
    importlib.invalidate_caches()
    if importlib.util.find_spec("ensurepip") is None:
        raise MissingProgramError(f"{sys.executable} cannot make virtual environments.")


@dataclass(frozen=True)
class Program:
    """A program, and how it comes onto a machine.

    Attributes:
        name: for messages; the program's file name unless `find` knows better.
        tasks: targets of make that need it.
        packages: the package that holds it, by the command that installs packages.
        find: raises `MissingProgramError` where it is absent or unusable.
    """

    name: str
    tasks: tuple[str, ...]
    packages: Mapping[str, str] = field(default_factory=dict)
    find: Callable[[Mapping[str, str]], Path | None] | None = None

    def is_usable(self, environment: Mapping[str, str]) -> bool:
        """Whether the program is there, in a version that will do."""
        if self.find is None:
            return shutil.which(self.name, path=environment.get("PATH", "")) is not None
        try:
            self.find(environment)
        except MissingProgramError:
            return False
        return True


DEMO, TEST, VERIFY, TEST_FAST, CHECK_DEPLOY = TASKS = (
    "demo", "test", "verify", "test-fast", "check-deploy",
)  # fmt: skip

JAVA = Program(
    f"Java {MINIMUM_JAVA}",
    (DEMO, TEST, VERIFY),
    {
        "apt-get install": "openjdk-17-jre-headless",
        "dnf install": "java-17-openjdk-headless",
        "apk add": "openjdk17-jre-headless",
        "pacman -S": "jre17-openjdk-headless",
    },
    find=find_java,
)
MAVEN = Program("mvn", (DEMO, TEST, VERIFY), dict.fromkeys(_SYSTEMS, "maven"), find=find_maven)

PROGRAMS = (
    Program("make", TASKS, {"apt-get install": "make"}),
    Program("venv", TASKS, {"apt-get install": "python3-venv"}, find=_find_venv),
    JAVA,
    MAVEN,
    Program("chromium", (VERIFY,), {"apt-get install": "chromium"}, find=find_chromium),
    Program("promtool", (CHECK_DEPLOY,), {"apt-get install": "prometheus"}),
    Program("systemd-analyze", (CHECK_DEPLOY,), {"apt-get install": "systemd"}),
)
"""The list."""


def missing(tasks: Sequence[str], environment: Mapping[str, str]) -> list[Program]:
    """Return the programs that the tasks need and the machine lacks, in the list's order."""
    return [
        program
        for program in PROGRAMS
        if not set(tasks).isdisjoint(program.tasks) and not program.is_usable(environment)
    ]


def untried(
    tasks: Sequence[str], environment: Mapping[str, str], python: tuple[int, int]
) -> list[str]:
    """Say of each program for these tasks that is newer than any that was tried; it may well do."""
    found = []
    if python > NEWEST_TRIED_PYTHON:
        newest = ".".join(map(str, NEWEST_TRIED_PYTHON))
        found.append(f"Python {python[0]}.{python[1]} has not been tried, 3.11 to {newest} have")
    if not set(tasks).isdisjoint(JAVA.tasks) and JAVA.is_usable(environment):
        java = _java_version(find_java(environment))
        if java is not None and java > NEWEST_TRIED_JAVA:
            tried = f"{MINIMUM_JAVA} to {NEWEST_TRIED_JAVA}"
            found.append(f"Java {java} has not been tried, {tried} have (set JAVA_HOME)")
    return found


def how_to_install(programs: Sequence[Program]) -> str:
    """Return a line for each way that installs all these programs, Debian's first."""
    ways = {
        system: f"{command} {' '.join(program.packages[command] for program in programs)}"
        for command, system in _SYSTEMS.items()
        if all(command in program.packages for program in programs)
    }
    return "\n".join(f"  {system + ':':16} {way}" for system, way in ways.items())


def _how_to_get_pulsar() -> str:
    return (
        f"Install a Java Runtime ({MINIMUM_JAVA} or later) and Maven:\n"
        f"{how_to_install((JAVA, MAVEN))}\n"
        "or set JAVA_HOME to a Java that is already there."
    )


def install_packages(
    programs: Sequence[Program], environment: Mapping[str, str], run: Callable[..., Any]
) -> None:
    """Install Debian's packages of these programs with `run`, which is `subprocess.run`."""
    packages = [program.packages["apt-get install"] for program in programs]
    quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
    get = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
    print(f"installing {' '.join(packages)}", file=sys.stderr)
    for command in (["apt-get", "update", "-qq"], [*get, *packages]):
        run(command, env=quiet, check=False)


def main(
    tasks: Sequence[str],
    environment: Mapping[str, str],
    *,
    user_id: int,
    run: Callable[..., Any] = subprocess.run,
) -> int:
    """Look for what the tasks need, install it where that is allowed, and say what stays missing."""
    unknown = set(tasks) - set(TASKS)
    if unknown or not tasks:
        print(f"usage: python -m deploy.local.requirements {'|'.join(TASKS)}...", file=sys.stderr)
        return 2
    lacking = missing(tasks, environment)
    if lacking and user_id == 0 and shutil.which("apt-get", path=environment.get("PATH", "")):
        install_packages(lacking, environment, run)
        lacking = missing(tasks, environment)
    if lacking:
        names = ", ".join(program.name for program in lacking)
        print(f"missing: {names}. Install:\n{how_to_install(lacking)}", file=sys.stderr)
    for text in untried(tasks, environment, sys.version_info[:2]):
        print(f"note: {text}", file=sys.stderr)
    return 2 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, user_id=os.getuid()))

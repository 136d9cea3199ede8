"""The programs that must be on the machine: a Java Runtime of 17 or later, and Maven.

They are looked for before anything else is done, so that nobody waits for a download to be told
that it cannot be used. `JAVA_HOME` wins over `PATH`, as it does for Maven itself.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from deploy.local.errors import MissingProgramError

#: Pulsar 4.x is compiled to class files of this Java version.
MINIMUM_JAVA = 17

_HOW_TO_INSTALL = """\
Install a Java Runtime (17 or later) and Maven:
  Debian, Ubuntu:  apt-get install openjdk-17-jre-headless maven
  Fedora, RHEL:    dnf install java-17-openjdk-headless maven
  Alpine:          apk add openjdk17-jre-headless maven
  Arch:            pacman -S jre17-openjdk-headless maven
  macOS:           brew install openjdk@17 maven
or set JAVA_HOME to a Java that is already there."""


def find_java(environment: Mapping[str, str]) -> Path:
    """Return the path of a usable `java` program.

    Raises:
        MissingProgramError: there is none, or it is older than 17.
    """
    home = environment.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise MissingProgramError(f"No `java` program was found.\n{_HOW_TO_INSTALL}")
    version = _java_version(Path(found))
    if version is None:
        raise MissingProgramError(f"{found} does not say its version.\n{_HOW_TO_INSTALL}")
    if version < MINIMUM_JAVA:
        raise MissingProgramError(
            f"{found} is Java {version}; Pulsar needs {MINIMUM_JAVA} or later.\n{_HOW_TO_INSTALL}"
        )
    return Path(found)


def find_maven(environment: Mapping[str, str]) -> Path:
    """Return the path of the `mvn` program.

    Raises:
        MissingProgramError: there is none.
    """
    found = shutil.which("mvn", path=environment.get("PATH", ""))
    if found is None:
        raise MissingProgramError(f"No `mvn` program (Maven) was found.\n{_HOW_TO_INSTALL}")
    return Path(found)


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

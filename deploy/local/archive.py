"""Class data sharing: Pulsar's classes, parsed and verified once instead of at every start.

A broker loads some 15,000 classes, and most of its start is spent on them. Java can write the
classes of one run to an archive that later runs map into memory, which on two cores brought a
broker's start down from 7.1 to 4.8 seconds of processor time. That counts twice: three brokers
start at once, and a broker that is restarted under load must not starve the others.

The archive is kept beside the jars. It fits one set of jars and one Java only, so its name holds
both. Java ignores an archive that does not fit, and a cluster does without one that is missing.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path


def archive_file(java: Path, jars: Path) -> Path:
    """Return where the archive for this Java and these jars is, or would be, kept."""
    version = subprocess.run([java, "-version"], capture_output=True, check=False).stderr
    fingerprint = hashlib.sha256(version).hexdigest()[:12]
    return jars.with_name(f"{jars.name}-java-{fingerprint}.jsa")


def use(archive: Path) -> str:
    """Return the Java option that uses the archive; Java runs without it if it is missing."""
    return f"-XX:SharedArchiveFile={archive}"


def writing(command: Sequence[str], archive: Path, target: Path) -> tuple[str, ...]:
    """Return a command that uses the archive, made to write one to `target` when it ends."""
    assert use(archive) in command
    return tuple(
        f"-XX:ArchiveClassesAtExit={target}" if word == use(archive) else word for word in command
    )

"""Pulsar's own decoder as a judge: what a broker reads out of frames, told by ``Judge.java``.

It is compiled once, by a compiler that the launcher fetches, and kept beside the launcher's jars. A judge
is a process of its own; it answers in the order in which it was asked.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from deploy.local import jars
from deploy.local.requirements import find_java

_SOURCE: Final = Path(__file__).with_name("Judge.java")
_HEAD: Final = 8
"""Two sizes stand before a command."""

_length = struct.Struct(">I")

Fields = Mapping[str, Any]
"""The fields of a message, by their names in PulsarApi.proto in lower case and without underscores.

A number is as Java has it: an uint64 above 2**63 is negative.
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """A broker's reading of a frame.

    Args:
        refused: why it closes the connection; empty if it does not.
        kind: the number of the type.
        command: the sub-message of that type; None if there is none.
        others: the names of all other sub-messages.
        end: where it stops to read the command.
        metadata: of a SEND or MESSAGE; None where it cannot be read.
        metadata_end: where it stops to read that.
    """

    refused: str = ""
    kind: int = 0
    command: Fields | None = None
    others: frozenset[str] = frozenset()
    end: int = 0
    metadata: Fields | None = field(default=None)
    metadata_end: int = 0

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Make one of what the judge says."""
        if "refused" in record:
            return cls(refused=record["refused"])
        command: dict[str, Any] = record["command"]
        name = _NAMES.get(command["type"]) or command["type"].replace("_", "").lower()
        metadata = record.get("metadata")
        return cls(
            kind=record["type"],
            command=command.get(name),
            others=frozenset(command) - {"type", name},
            end=record["end"],
            metadata=None if metadata is None or "refused" in metadata else metadata,
            metadata_end=record.get("metadataEnd", 0),
        )


_NAMES: Final = {
    "PARTITIONED_METADATA": "partitionmetadata",
    "PARTITIONED_METADATA_RESPONSE": "partitionmetadataresponse",
    "LOOKUP": "lookuptopic",
    "LOOKUP_RESPONSE": "lookuptopicresponse",
}
"""Sub-messages that are not called as their type is."""


class Judge:
    """A process that reads frames.

    Args:
        library: a directory of jars, one of which is pulsar-common.
    """

    def __init__(self, library: Path) -> None:
        self.name = library.name
        command = [str(find_java(os.environ)), "-Xmx256m", "-XX:+UseSerialGC"]
        command += ["-cp", f"{compiled()}{os.pathsep}{library}/*", "Judge"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tempfile.gettempdir()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def read(self, frames: Sequence[bytes]) -> list[Reading]:
        """Return a broker's reading of each frame.

        Raises:
            RuntimeError: the process ended.
        """
        writer = threading.Thread(target=self._write, args=(frames,))
        writer.start()
        assert self._process.stdout is not None
        readings = [Reading.of(self._answer(self._process.stdout)) for _ in frames]
        writer.join()
        return readings

    def _write(self, frames: Iterable[bytes]) -> None:
        assert self._process.stdin is not None
        for frame in frames:
            self._process.stdin.write(_length.pack(len(frame)) + frame)
        self._process.stdin.flush()

    def _answer(self, out: IO[bytes]) -> Any:
        head = out.read(_length.size)
        if len(head) < _length.size:
            raise RuntimeError(f"the judge {self.name} ended: {self._process.wait()}")
        return json.loads(out.read(_length.unpack(head)[0]))


def libraries() -> tuple[Path, ...]:
    """The directories with the jars of each Pulsar that the launcher has: the brokers', the tools'."""
    root = jars.cache_root(os.environ)
    return (jars.server_jars(jars.DEFAULT_PULSAR, root), jars.tool_jars(root))


def compiled() -> Path:
    """The directory with the judge's classes, which are compiled if they are not there."""
    root = jars.cache_root(os.environ)
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    classes = root / f"judge-{digest}"
    if not classes.is_dir():
        _compile(classes)
    return classes


def _compile(classes: Path) -> None:
    root = classes.parent
    compiler = jars.compiler_jars(root)
    library = jars.server_jars(jars.DEFAULT_PULSAR, root)
    class_path = os.pathsep.join(str(jar) for jar in sorted(library.glob("*.jar")))
    with tempfile.TemporaryDirectory(dir=root) as partial:
        target = Path(partial, "classes")
        command = [str(find_java(os.environ)), "-cp", f"{compiler}/*"]
        command += ["org.eclipse.jdt.internal.compiler.batch.Main", "--release", "17"]
        command += ["-cp", class_path, "-d", str(target), str(_SOURCE)]
        subprocess.run(command, check=True)
        with suppress(FileExistsError, OSError):  # another process was quicker
            target.rename(classes)

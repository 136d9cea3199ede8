"""The cache of jars, with a stand-in for Maven."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from deploy.local import archive, jars
from deploy.local.errors import LocalClusterError, WrongUseError
from tests.jars import client_jars

#: Writes one jar where it is told to, and notes that it was asked.
_MAVEN = """\
for word in "$@"; do case $word in -DoutputDirectory=*) out=${word#*=};; esac; done
mkdir "$out" && cp pom.xml "$out/some.jar" && echo called >> "$CALLS"
"""


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named mvn, first on PATH."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(f"#!{shutil.which('sh')}\n{_MAVEN}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return program


def test_the_cache_is_named_by_the_environment_or_lies_at_home() -> None:
    """PULSAR_QUOTA_CACHE wins."""
    assert jars.cache_root({"PULSAR_QUOTA_CACHE": "/x"}) == Path("/x")
    assert jars.cache_root({}) == Path.home() / ".cache" / "pulsar-quota"


def test_jars_are_fetched_once(tmp_path: Path, maven: Path) -> None:
    """The second call finds the directory; only it and a lock are left behind."""
    root = tmp_path / "cache"
    first = jars.server_jars("4.2.4", root)
    assert jars.server_jars("4.2.4", root) == first == root / "pulsar-4.2.4"
    assert (tmp_path / "calls").read_text() == "called\n"
    assert sorted(f.name for f in root.iterdir()) == ["pulsar-4.2.4", "pulsar-4.2.4.lock"]


def test_two_at_once_fetch_once(tmp_path: Path, maven: Path) -> None:
    """The second waits for the first and takes what it has fetched."""
    threads = [
        threading.Thread(target=jars.server_jars, args=("4.0.7", tmp_path)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "calls").read_text() == "called\n"


def test_brokers_get_pulsars_own_version_table(tmp_path: Path, maven: Path) -> None:
    """Without the import a broker dies of mixed OpenTelemetry versions."""
    pom = (jars.server_jars("4.2.4", tmp_path) / "some.jar").read_text()
    assert "<artifactId>pulsar</artifactId><version>4.2.4</version><type>pom</type>" in pom


def test_a_library_that_is_too_old_in_pulsars_table_is_replaced(
    tmp_path: Path, maven: Path
) -> None:
    """Named before the import, which it wins over; other versions have their own table alone."""
    pom = (jars.server_jars("5.0.0-M1", tmp_path) / "some.jar").read_text()
    newer = "<artifactId>jackson-annotations</artifactId><version>2.21</version>"
    assert newer in pom.partition("<artifactId>pulsar</artifactId>")[0]
    assert "jackson" not in (jars.server_jars("4.0.7", tmp_path) / "some.jar").read_text()


def test_clients_get_newer_libraries_as_brokers_do(tmp_path: Path, maven: Path) -> None:
    """The client of 5.0.0-M1 needs the same Jackson; others are fetched as they are."""
    newer = "<artifactId>jackson-annotations</artifactId><version>2.21</version>"
    for version, has_newer in (("5.0.0-M1", True), ("4.2.4", False)):
        pom = (client_jars("pulsar-client-v5", version, tmp_path) / "some.jar").read_text()
        assert (newer in pom) is has_newer


def test_a_compiler_is_fetched_for_machines_that_have_a_runtime_only(
    tmp_path: Path, maven: Path
) -> None:
    """It is no part of Pulsar, and has a directory of its own."""
    directory = jars.compiler_jars(tmp_path)
    assert directory.name.startswith("ecj-")
    assert "<groupId>org.eclipse.jdt</groupId>" in (directory / "some.jar").read_text()


def test_a_failing_maven_is_quoted_and_leaves_no_directory(tmp_path: Path, maven: Path) -> None:
    """A half-fetched directory is never a class path."""
    maven.write_text(f"#!{shutil.which('sh')}\necho no route to anywhere; exit 1\n")
    with pytest.raises(LocalClusterError, match="no route to anywhere"):
        jars.server_jars("4.2.4", tmp_path)
    assert not (tmp_path / "pulsar-4.2.4").exists()


@pytest.mark.parametrize("version", ["latest", "4.2", "../4.2.4", ""])
def test_what_is_no_version_is_refused(version: str, tmp_path: Path) -> None:
    """Nothing but a version becomes part of a path."""
    with pytest.raises(WrongUseError):
        jars.server_jars(version, tmp_path)


def test_the_class_archive_depends_on_the_java(tmp_path: Path) -> None:
    """Another Java would have no use for it."""
    names = set()
    for version in ("17", "21"):
        java = tmp_path / version
        java.write_text(f"#!{shutil.which('sh')}\necho {version} >&2\n")
        java.chmod(0o755)
        names.add(archive.archive_file(java, Path("/cache/pulsar-4.2.4")).name)
    assert len(names) == 2


def test_a_command_that_writes_an_archive_uses_none() -> None:
    """The one option takes the place of the other."""
    command = ("java", archive.use(Path("/a.jsa")), "Main")
    writing = archive.writing(command, Path("/a.jsa"), Path("/b.jsa"))
    assert writing == ("java", "-XX:ArchiveClassesAtExit=/b.jsa", "Main")

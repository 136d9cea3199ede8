"""What is said when Java or Maven is missing, too old, or does not work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deploy.local.__main__ import main
from deploy.local.errors import MissingProgramError
from deploy.local.requirements import find_java, find_maven, parse_java_version


def script(directory: Path, name: str, text: str) -> Path:
    """Write an executable shell script."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_text(f"#!{shutil.which('sh')}\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_the_version_is_read_whatever_its_form(text: str, version: int | None) -> None:
    """Java 8 calls itself 1.8, later ones by one number or three."""
    assert parse_java_version(text) == version


def test_missing_java_is_said_with_the_line_that_installs_it() -> None:
    """An empty PATH yields the Debian line and names of other systems."""
    with pytest.raises(MissingProgramError) as caught:
        find_java({"PATH": ""})
    assert "apt-get install openjdk-17-jre-headless maven" in str(caught.value)
    assert "Fedora" in str(caught.value)


def test_missing_maven_is_said(tmp_path: Path) -> None:
    """An empty directory on PATH holds no mvn."""
    with pytest.raises(MissingProgramError, match="Maven"):
        find_maven({"PATH": str(tmp_path)})


def test_an_old_java_is_refused_by_its_version(tmp_path: Path) -> None:
    """The message names both versions."""
    script(tmp_path, "java", "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(MissingProgramError, match=r"Java 11; Pulsar needs 17"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_that_does_not_run_is_refused(tmp_path: Path) -> None:
    """A broken installation is not taken for a Java."""
    script(tmp_path, "java", "exit 1")
    with pytest.raises(MissingProgramError, match="does not say its version"):
        find_java({"PATH": str(tmp_path)})


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    """As it does for Maven."""
    wanted = script(tmp_path / "home" / "bin", "java", "echo 'version \"21\"' >&2")
    script(tmp_path / "path", "java", "echo 'version \"17\"' >&2")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert find_java(environment) == wanted


@pytest.mark.parametrize("command", ["up", "jars"])
def test_without_java_nothing_is_fetched_or_started(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command line says what to install, exits with 2 and leaves no file."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PULSAR_QUOTA_CACHE", str(tmp_path / "cache"))
    assert main([command, "--state-dir", str(tmp_path / "state")]) == 2
    assert "apt-get install" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

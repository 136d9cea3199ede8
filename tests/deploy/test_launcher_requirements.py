"""Programs that are missing, too old or broken are said at once, with the line that installs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local import requirements
from deploy.local.__main__ import main
from deploy.local.errors import MissingProgramError
from deploy.local.requirements import find_java, find_maven, parse_java_version

ROOT = Path(__file__).parents[2]


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


def machine(tmp_path: Path, *programs: str) -> dict[str, str]:
    """The environment of a machine that has these programs and no other."""
    for name in programs:
        script(tmp_path, name, "echo 'version \"17\"' >&2")
    return {"PATH": str(tmp_path)}


def nothing_runs(*arguments: object, **_options: object) -> None:
    """Stands in for `subprocess.run` where no command may be run."""
    pytest.fail(f"run: {arguments}")


def test_all_that_is_missing_is_said_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ordinary user gets one apt-get line for all programs, and nothing is installed."""
    environment = machine(tmp_path, "make", "apt-get")

    code = requirements.main(["verify"], environment, user_id=1000, run=nothing_runs)

    said = capsys.readouterr().err
    assert code == 2
    assert "missing: Java 17, mvn, chromium" in said
    assert said.count("apt-get install") == 1
    assert "apt-get install openjdk-17-jre-headless maven chromium\n" in said


def test_root_on_debian_installs_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The packages are named before they are installed, and looked for afterwards."""
    environment = machine(tmp_path, "make", "java", "apt-get")
    commands: list[list[str]] = []

    def run(command: list[str], **_options: object) -> None:
        commands.append(command)
        machine(tmp_path, "mvn", "chromium")

    code = requirements.main(["verify"], environment, user_id=0, run=run)

    assert code == 0
    assert [command[:2] for command in commands] == [["apt-get", "update"], ["apt-get", "install"]]
    assert commands[1][-2:] == ["maven", "chromium"]
    assert "installing maven chromium" in capsys.readouterr().err


def test_an_installation_that_fails_is_not_taken_for_success(tmp_path: Path) -> None:
    """A program that is absent after apt-get is missing."""
    environment = machine(tmp_path, "make", "apt-get")

    code = requirements.main(["demo"], environment, user_id=0, run=lambda *_, **__: None)

    assert code == 2


def test_a_task_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt task must not pass for one that needs nothing."""
    assert requirements.main(["tset"], {}, user_id=1000, run=nothing_runs) == 2
    assert "usage" in capsys.readouterr().err


def test_make_test_says_what_is_missing_before_it_does_anything(tmp_path: Path) -> None:
    """Within seconds, from a PATH with nothing but what make's recipes themselves use."""
    for name in ("make", "bash", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")

    done = subprocess.run(
        ["make", "test", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "apt-get install openjdk-17-jre-headless maven\n" in done.stderr
    assert ".venv" not in done.stdout


def test_make_says_that_a_python_is_too_old_before_it_runs_any_of_ours(tmp_path: Path) -> None:
    """An old one cannot even read our code."""
    old = script(tmp_path, "python", '[ "$1" = --version ] && echo Python 3.6.15; exit 1')
    # As from a shell, also where `make` runs the tests: it would say which directory it enters.
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "needs-demo", f"PYTHON={old}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert done.stdout == "Python 3.11 or newer is needed, Python 3.6.15 found: set PYTHON=...\n"


@pytest.mark.parametrize(
    ("java", "python", "said"),
    [
        (17, (3, 11), []),
        (25, (3, 13), []),
        (26, (3, 11), ["Java 26 has not been tried, 17 to 25 have (set JAVA_HOME)"]),
        (17, (3, 15), ["Python 3.15 has not been tried, 3.11 to 3.13 have"]),
    ],
)
def test_what_is_newer_than_all_that_was_tried_is_said_and_used(
    tmp_path: Path, java: int, python: tuple[int, int], said: list[str]
) -> None:
    """It may well do, and is no reason to refuse."""
    script(tmp_path, "java", f"echo 'version \"{java}.0.1\"' >&2")
    environment = {"PATH": str(tmp_path)}

    assert requirements.untried(["demo"], environment, python) == said
    assert not any(
        "Java" in text for text in requirements.untried(["test-fast"], environment, python)
    )


def test_what_ci_runs_first_is_the_list() -> None:
    """`.ci/run` names no program of its own."""
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert "python3 -m deploy.local.requirements test check-deploy" in text
    for program in requirements.PROGRAMS:
        assert all(
            package not in text for package in program.packages.values() if package != "make"
        )

"""The files with which the command line speaks TLS to the API."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.cli.trust import trust
from tests.cli.conftest import InProcess, Run


def test_without_files_the_system_decides() -> None:
    """The command trusts and shows no file of its own."""
    assert trust(None, None, None) is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--tls-certificate", "mine.pem"), "--tls-certificate, --tls-key: name both"),
        (("--tls-key", "mine.pem"), "--tls-certificate, --tls-key: name both"),
        (("--tls-ca", "nowhere.pem"), "--tls-ca nowhere.pem: cannot be used: "),
        (("--tls-ca", "rubbish.pem"), "--tls-ca rubbish.pem: cannot be used: "),
        (
            ("--tls-certificate", "rubbish.pem", "--tls-key", "rubbish.pem"),
            "--tls-certificate rubbish.pem, --tls-key rubbish.pem: cannot be used: ",
        ),
    ],
)
def test_files_that_cannot_be_used_are_wrong_use(
    run: Run,
    transport: InProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    why: str,
) -> None:
    """The error names the option, before any request is sent."""
    monkeypatch.chdir(tmp_path)
    Path("rubbish.pem").write_text("rubbish")

    wrong = run("groups", "list", *words)

    assert (wrong.exit_code, wrong.stderr.startswith(why)) == (2, True)
    assert wrong.stderr.count("\n") == 1
    assert not transport.requests


def test_files_come_from_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address and the token do, too."""
    monkeypatch.setenv("PULSAR_QUOTA_TLS_CA", "nowhere.pem")

    assert "--tls-ca nowhere.pem" in run("groups", "list").stderr

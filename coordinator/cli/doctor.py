"""``pulsar-quota doctor``: look at everything that must work, and say what to do where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from coordinator.cli.client import NotIdentifiedHere
from coordinator.cli.configuration import Settings, api_of, load_or_refuse
from coordinator.cli.consoles import console
from coordinator.cli.doctor_api import examine_api
from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.findings import Finding, Level
from coordinator.cli.output import print_json
from coordinator.cli.session import GlobalOptions, session_of
from coordinator.config import Config

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.WRONG: "bold red"}
_SUBJECT_WIDTH = 14


def doctor(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Also check what this sidecar's configuration names, from this machine; its API is "
            "asked if --api names no other.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    settings: Settings = None,
    native: Annotated[
        str | None,
        typer.Option(
            help="Before the first sidecar: check what native enforcement needs of all brokers, of which "
            "this is one's web service, and print a configuration for each sidecar.",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    broker_token_file: Annotated[
        Path | None,
        typer.Option(
            help="With --native: the token that brokers are asked with, a super-user's.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check everything that must work and say how to fix what does not."""
    session = session_of(context)
    if native is not None:
        _show(session, _of_brokers(session, native, broker_token_file))
        return
    loaded = None if config is None else load_or_refuse(config, settings)
    if loaded is not None and not session.is_named:
        session = replace(session, api=api_of(loaded))
    with session.connect() as client:
        findings = list(examine_api(client))
    if loaded is not None:
        # Imported only now: most calls do not need ZooKeeper's client, which takes a while to load.
        from coordinator.cli.doctor_host import examine_host  # noqa: PLC0415
        from coordinator.cli.probes import Probes  # noqa: PLC0415

        findings += examine_host(loaded, _answering_broker(session, loaded), Probes())
    _show(session, findings)


def _of_brokers(session: GlobalOptions, url: str, token_file: Path | None) -> list[Finding]:
    # Only this option asks brokers.
    from coordinator.cli.doctor_native import AskedBrokers, examine_brokers  # noqa: PLC0415

    try:
        token = None if token_file is None else token_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise WrongUse(f"--broker-token-file {token_file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUse(f"--broker-token-file {token_file}: {error}") from error
    with AskedBrokers(url, token, session.trust, session.transport) as brokers:
        return list(examine_brokers(brokers, token_file))


def _show(session: GlobalOptions, findings: Sequence[Finding]) -> None:
    if session.as_json:
        print_json(findings)
    else:
        for finding in findings:
            console().print(_as_text(finding))
            for line in finding.fix.splitlines()[1:]:
                console().print(Text(f"    {line}"), soft_wrap=True)
    if any(finding.level is Level.WRONG for finding in findings):
        raise typer.Exit(1)


def _answering_broker(session: GlobalOptions, config: Config) -> str | None:
    try:
        with session.connect() as client:
            return client.health().broker
    except NotIdentifiedHere:  # a sidecar does; at the configuration's own address it is that one
        return None if session.is_named else config.broker_id
    except CommandFailed:
        return None


def _as_text(finding: Finding) -> Text:
    text = Text()
    text.append(f"{finding.level.value:<6}", style=_STYLES[finding.level])
    text.append(f"{finding.subject:<{_SUBJECT_WIDTH}} {finding.text}")
    if finding.fix:
        text.append(f"\n{'':6}{'':{_SUBJECT_WIDTH}} -> {finding.fix.splitlines()[0]}")
    return text

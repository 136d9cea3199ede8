"""``pulsar-quota groups``: the definitions of groups, and the owners that belong to them.

The short flags are those of ``pulsar-admin resourcegroups``. Two things differ from it on purpose:
``create`` refuses a name that exists and ``update`` one that does not, since with a PUT for both a
typing mistake changes or creates the wrong group.
"""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli import files
from coordinator.cli.answers import DIMENSION_NAMES, AttachmentsAnswer, DefinitionAnswer
from coordinator.cli.client import AdminClient, NoSuchEntry
from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.operations import Wait, outcome, wait_for
from coordinator.cli.output import console, echo, print_json, rate, table
from coordinator.cli.session import session_of

app = typer.Typer(help="Resource groups and their attachments.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the resource group.", show_default=False)]
MsgPublishRate = Annotated[
    int | None,
    typer.Option("--msg-publish-rate", "-mp", help="Publish, messages/s; -1 = not limited."),
]
BytePublishRate = Annotated[
    int | None,
    typer.Option("--byte-publish-rate", "-bp", help="Publish, bytes/s; -1 = not limited."),
]
MsgDispatchRate = Annotated[
    int | None,
    typer.Option("--msg-dispatch-rate", "-md", help="Dispatch, messages/s; -1 = not limited."),
]
ByteDispatchRate = Annotated[
    int | None,
    typer.Option("--byte-dispatch-rate", "-bd", help="Dispatch, bytes/s; -1 = not limited."),
]
Law = Annotated[str | None, typer.Option(help="Law by which the limit is shared, such as max-min.")]
Weights = Annotated[
    str | None, typer.Option(help="Weight of a broker: equal, or topics (active ones).")
]
OvershootPolicy = Annotated[
    str | None,
    typer.Option(help="Policy that turns a share into a limit: balanced, eager or strict."),
]
PartitionPolicy = Annotated[
    str | None, typer.Option(help="Without ZooKeeper: hold, safe (an equal part) or stop.")
]
Enforcement = Annotated[
    str | None, typer.Option(help="observe counts what would wait and holds nothing; or enforce.")
]
Observes = Annotated[
    str | None,
    typer.Option(
        help="With observe: try it on this group's traffic; empty = its own.", metavar="G"
    ),
]
Tenant = Annotated[str | None, typer.Option(help="The tenant T.", metavar="T")]
Namespace = Annotated[str | None, typer.Option(help="The namespace T/N.", metavar="T/N")]


@app.command("list")
def list_groups(context: typer.Context) -> None:
    """List all resource groups."""
    session = session_of(context)
    with session.connect() as client:
        definitions = client.definitions()
    if session.as_json:
        print_json(definitions)
        return
    shown = table(["group", *(f">{name}/s" for name in DIMENSION_NAMES.values()), "attached"])
    for found in definitions:
        shown.add_row(found["name"], *_rates(found), ", ".join(_owners(found["attachments"])))
    console().print(shown if definitions else "There are no resource groups.")


@app.command("get")
def get_group(context: typer.Context, name: Name) -> None:
    """Show one resource group."""
    session = session_of(context)
    with session.connect() as client:
        found = client.definition(name)
    if session.as_json:
        print_json(found)
        return
    shown = table([name, ""])
    for label, value in zip(DIMENSION_NAMES.values(), _rates(found), strict=True):
        shown.add_row(f"{label}/s", value)
    shown.add_row("law", found["law"])
    shown.add_row("weights", found["weights"])
    shown.add_row("overshoot policy", found["overshootPolicy"])
    shown.add_row("partition policy", found["partitionPolicy"])
    whose = f", on the traffic of {found['observes']}" if found["observes"] else ""
    shown.add_row("enforcement", found["enforcement"] + whose)
    shown.add_row("attached", ", ".join(_owners(found["attachments"])) or "nothing")
    shown.add_row("version", str(found["configurationVersion"]))
    console().print(shown)


@app.command("create")
def create_group(  # noqa: PLR0913, PLR0917 - a flag is a parameter
    context: typer.Context,
    name: Name,
    msg_publish_rate: MsgPublishRate = None,
    byte_publish_rate: BytePublishRate = None,
    msg_dispatch_rate: MsgDispatchRate = None,
    byte_dispatch_rate: ByteDispatchRate = None,
    law: Law = None,
    weights: Weights = None,
    overshoot_policy: OvershootPolicy = None,
    partition_policy: PartitionPolicy = None,
    enforcement: Enforcement = None,
    observes: Observes = None,
    wait: Wait = False,
) -> None:
    """Create a resource group; rates that are not given are not limited."""
    rates = (msg_publish_rate, byte_publish_rate, msg_dispatch_rate, byte_dispatch_rate)
    settings = (law, weights, overshoot_policy, partition_policy, enforcement, observes)
    fields = _fields(rates, settings)
    with session_of(context).connect() as client:
        if _exists(client, name):
            raise CommandFailed(
                f"ResourceGroup {name} exists already; change it with `groups update`."
            )
        operation_id = client.put_group(name, fields)
        _answer(context, client, name, "created", operation_id if wait else None)


@app.command("update")
def update_group(  # noqa: PLR0913, PLR0917 - a flag is a parameter
    context: typer.Context,
    name: Name,
    msg_publish_rate: MsgPublishRate = None,
    byte_publish_rate: BytePublishRate = None,
    msg_dispatch_rate: MsgDispatchRate = None,
    byte_dispatch_rate: ByteDispatchRate = None,
    law: Law = None,
    weights: Weights = None,
    overshoot_policy: OvershootPolicy = None,
    partition_policy: PartitionPolicy = None,
    enforcement: Enforcement = None,
    observes: Observes = None,
    wait: Wait = False,
) -> None:
    """Change a resource group; settings that are not given stay as they are, and -1 lifts a limit."""
    rates = (msg_publish_rate, byte_publish_rate, msg_dispatch_rate, byte_dispatch_rate)
    settings = (law, weights, overshoot_policy, partition_policy, enforcement, observes)
    fields = _fields(rates, settings)
    if not fields:
        raise WrongUse("Nothing to change: give at least one rate or setting (see --help).")
    with session_of(context).connect() as client:
        if not _exists(client, name):
            raise CommandFailed(
                f"ResourceGroup {name} does not exist; create it with `groups create`."
            )
        operation_id = client.put_group(name, fields)
        _answer(context, client, name, "updated", operation_id if wait else None)


@app.command("delete")
def delete_group(context: typer.Context, name: Name) -> None:
    """Delete a resource group that has no attachments."""
    session = session_of(context)
    with session.connect() as client:
        client.delete_group(name)
    if session.as_json:
        print_json({"name": name, "deleted": True})
    else:
        echo(f"ResourceGroup {name} deleted.")


@app.command("attach")
def attach(
    context: typer.Context,
    name: Name,
    tenant: Tenant = None,
    namespace: Namespace = None,
    wait: Wait = False,
) -> None:
    """Attach a tenant or a namespace to a resource group."""
    owner = _owner(tenant, namespace)
    with session_of(context).connect() as client:
        operation_id = client.attach(owner, name)
        done = f"attached to {owner}"
        _answer(context, client, name, done, operation_id if wait else None)


@app.command("detach")
def detach(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(help="Detach only if it is attached to this one.", show_default=False),
    ] = None,
    tenant: Tenant = None,
    namespace: Namespace = None,
) -> None:
    """Detach a tenant or a namespace from its resource group; not attached is fine."""
    owner = _owner(tenant, namespace)
    session = session_of(context)
    with session.connect() as client:
        attached = client.attached_group(owner)
        if name is not None and attached not in ("", name):
            raise CommandFailed(f"{owner} is attached to ResourceGroup {attached}, not {name}.")
        client.detach(owner)
    if session.as_json:
        print_json({"owner": owner, "detachedFrom": attached or None})
    else:
        echo(f"{owner} detached from {attached or 'nothing: it was not attached'}.")


def _exists(client: AdminClient, name: str) -> bool:
    try:
        client.definition(name)
    except NoSuchEntry:
        return False
    return True


def _answer(
    context: typer.Context, client: AdminClient, name: str, done: str, operation_id: int | None
) -> None:
    """Print what was done; with an operation, wait for it first."""
    as_json = session_of(context).as_json
    if not as_json:
        echo(f"ResourceGroup {name} {done}.")
    operation = wait_for(client, operation_id)
    if as_json:
        followed = {} if operation is None else {"operation": operation}
        print_json({**client.definition(name), **followed})
    elif operation is not None:
        echo(outcome(operation))


def _fields(
    rates: tuple[int | None, ...], settings: tuple[str | None, ...]
) -> dict[str, int | str]:
    names = (
        *DIMENSION_NAMES,
        "law",
        "weights",
        "overshootPolicy",
        "partitionPolicy",
        "enforcement",
        "observes",
    )
    given = zip(names, (*rates, *settings), strict=True)
    return {name: value for name, value in given if value is not None}


def _owner(tenant: str | None, namespace: str | None) -> str:
    if (tenant is None) == (namespace is None):
        raise WrongUse("Give either --tenant T or --namespace T/N.")
    if namespace is None:
        if not tenant or "/" in tenant:
            raise WrongUse(f"--tenant {tenant}: write the name of a tenant, such as public.")
        return f"tenants/{tenant}"
    if len(parts := namespace.split("/")) != 2 or not all(parts):
        raise WrongUse(f"--namespace {namespace}: write tenant/namespace, such as public/default.")
    return f"namespaces/{namespace}"


def _owners(attachments: AttachmentsAnswer) -> list[str]:
    return [*attachments["tenants"], *attachments["namespaces"]]


def _rates(found: DefinitionAnswer) -> list[str]:
    return [
        rate(found["publishRateInMsgs"]),
        rate(found["publishRateInBytes"]),
        rate(found["dispatchRateInMsgs"]),
        rate(found["dispatchRateInBytes"]),
    ]


app.command("apply")(files.apply)
app.command("export")(files.export)

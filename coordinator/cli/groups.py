"""``pulsar-quota groups``: the definitions of groups, and the owners that belong to them.

Two things differ from ``pulsar-admin resourcegroups`` on purpose: ``create`` refuses a name that exists
and ``update`` one that does not, since with a PUT for both a typing mistake changes or creates the wrong
group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from coordinator.cli import files, owners
from coordinator.cli.client import AdminClient, NoSuchEntry
from coordinator.cli.consoles import console, table
from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.fields import DIMENSION_NAMES
from coordinator.cli.group_flags import Fields, with_flags
from coordinator.cli.operations import Wait, outcome, wait_for
from coordinator.cli.output import echo, print_json, rate
from coordinator.cli.owners import owner_named
from coordinator.cli.session import session_of
from coordinator.cli.tree import tree
from coordinator.core.answer import written
from coordinator.core.handling import REFUSE, hold_warning
from coordinator.core.model import Dimension
from coordinator.insight.model.definitions import Definition

app = typer.Typer(help="Resource groups and their attachments.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the resource group.", show_default=False)]
Tenant = Annotated[str | None, typer.Option(help="The tenant T.", metavar="T")]
Namespace = Annotated[str | None, typer.Option(help="The namespace T/N.", metavar="T/N")]
Role = Annotated[
    str | None,
    typer.Option(help="The role R that clients prove, or roles by a pattern, team-*.", metavar="R"),
]
Subscription = Annotated[
    str | None,
    typer.Option(help="The subscription S of a topic.", metavar="persistent/T/N/TOPIC/S"),
]
RemoteCluster = Annotated[
    str | None, typer.Option(help="Replication with the cluster C.", metavar="C")
]
DefaultRole = Annotated[
    bool, typer.Option("--default-role", help="The roles without an attachment.")
]


@app.command("list")
def list_groups(context: typer.Context) -> None:
    """List all resource groups."""
    session = session_of(context)
    with session.connect() as client:
        definitions = client.definitions()
    session.show_rows(definitions, _COLUMNS, "There are no resource groups.")


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
    for each in Dimension:
        shown.add_row(f"{DIMENSION_NAMES[each.value]}/s", rate(found.rates.of(each)))
    shown.add_row("law", found.law)
    shown.add_row("weights", found.weights)
    shown.add_row("overshoot policy", found.overshoot_policy)
    shown.add_row("partition policy", found.partition_policy)
    whose = f", on the traffic of {found.observes}" if found.observes else ""
    shown.add_row("enforcement", found.enforcement + whose)
    shown.add_row("on limit", _on_limit(found))
    if found.burst_seconds:
        shown.add_row("burst", f"{found.burst_seconds} s of the limit")
    if found.parent:
        shown.add_row("parent", found.parent)
        shown.add_row("weight", str(found.weight))
        guarantees = found.group(name).guarantees
        for dimension in Dimension:
            label = f"guaranteed {DIMENSION_NAMES[dimension.value]}/s"
            shown.add_row(label, rate(guarantees.of(dimension) or 0))
    if found.allowed_tenants:
        shown.add_row("allowed tenants", ", ".join(found.allowed_tenants))
    shown.add_row("attached", ", ".join(owners.shown(found.attachments)) or "nothing")
    shown.add_row("version", str(found.configuration_version))
    console().print(shown)


@app.command("create")
@with_flags
def create_group(context: typer.Context, name: Name, fields: Fields, wait: Wait = False) -> None:
    """Create a resource group; rates that are not given are not limited."""
    with session_of(context).connect() as client:
        if _exists(client, name):
            raise CommandFailed(
                f"ResourceGroup {name} exists already; change it with `groups update`."
            )
        # Another caller may create it since.
        operation_id = client.put_group(name, fields, {"If-None-Match": "*"})
        _answer(context, client, name, "created", operation_id if wait else None)


@app.command("update")
@with_flags
def update_group(context: typer.Context, name: Name, fields: Fields, wait: Wait = False) -> None:
    """Change a resource group; settings that are not given stay as they are, and -1 lifts a limit."""
    if not fields:
        raise WrongUse("Nothing to change: give at least one rate or setting (see --help).")
    with session_of(context).connect() as client:
        if not _exists(client, name):
            raise CommandFailed(
                f"ResourceGroup {name} does not exist; create it with `groups create`."
            )
        operation_id = client.put_group(name, fields, {"If-Match": "*"})
        _answer(context, client, name, "updated", operation_id if wait else None)


@app.command("delete")
def delete_group(
    context: typer.Context,
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Detach first what is attached to it, existing or not.")
    ] = False,
) -> None:
    """Delete a resource group that has neither attachments nor children."""
    session = session_of(context)
    with session.connect() as client:
        if force:
            for owner in owners.attached(client.definition(name).attachments):
                client.detach(owner)
        client.delete_group(name)
    session.tell({"name": name, "deleted": True}, f"ResourceGroup {name} deleted.")


@app.command("attach")
def attach(  # noqa: PLR0913, PLR0917 - a flag is a parameter
    context: typer.Context,
    name: Name,
    tenant: Tenant = None,
    namespace: Namespace = None,
    role: Role = None,
    default_role: DefaultRole = False,
    subscription: Subscription = None,
    remote_cluster: RemoteCluster = None,
    wait: Wait = False,
) -> None:
    """Attach a tenant, a namespace, a role, a subscription or replication to a resource group."""
    owner = owner_named(
        tenant,
        namespace,
        role=role,
        default_role=default_role,
        subscription=subscription,
        remote_cluster=remote_cluster,
    )
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
    role: Role = None,
    default_role: DefaultRole = False,
    subscription: Subscription = None,
    remote_cluster: RemoteCluster = None,
) -> None:
    """Detach one of these from its resource group; not attached is fine."""
    owner = owner_named(
        tenant,
        namespace,
        role=role,
        default_role=default_role,
        subscription=subscription,
        remote_cluster=remote_cluster,
    )
    session = session_of(context)
    with session.connect() as client:
        attached = client.attached_group(owner)
        if name is not None and attached not in ("", name):
            raise CommandFailed(f"{owner} is attached to ResourceGroup {attached}, not {name}.")
        client.detach(owner)
    session.tell(
        {"owner": owner, "detachedFrom": attached or None},
        f"{owner} detached from {attached or 'nothing: it was not attached'}.",
    )


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
        found = client.definition(name)
        if found.on_limit == REFUSE and (told := hold_warning(found.hold_millis)):
            echo(f"Note: {told}")
    operation = wait_for(client, operation_id)
    if as_json:
        followed = {} if operation is None else {"operation": operation}
        print_json({**written(client.definition(name)), **followed})
    elif operation is not None:
        echo(outcome(operation))


def _rate_column(dimension: Dimension) -> Callable[[Definition], str]:
    return lambda found: rate(found.rates.of(dimension))


_COLUMNS: Final[Mapping[str, Callable[[Definition], str]]] = {
    "group": lambda found: found.name,
    **{f">{DIMENSION_NAMES[each.value]}/s": _rate_column(each) for each in Dimension},
    "attached": lambda found: ", ".join(owners.shown(found.attachments)),
}


def _on_limit(found: Definition) -> str:
    if found.on_limit != REFUSE:
        return found.on_limit
    return f"{REFUSE} after {found.hold_millis:,} ms"


app.command("tree")(tree)
app.command("apply")(files.apply)
app.command("export")(files.export)

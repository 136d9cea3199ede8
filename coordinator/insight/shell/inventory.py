"""Hold what is attached and defined here against what Pulsar has, and tell what has no counterpart.

* *Orphaned*: a tenant or namespace is attached that Pulsar does not have. It was deleted at a broker,
  where no sidecar hears of it. Its attachment keeps its group from being deleted, and a new one of the
  same name is held to an old limit. If one is made, that is told until the attachment ends: whether it
  holds for the new one is for an operator to say.
* *Only in Pulsar*: a resource group was made at a broker, or a namespace attached to one there. No
  sidecar knows it, so it limits what Pulsar makes of it, by each broker for itself.

Each sidecar asks its own broker: for the tenants, the groups, and the namespaces of at most
`TENANTS_PER_LOOK` tenants, which take turns; and while Pulsar has groups that sidecars did not make, for
those of some namespaces (foreign_attachments.py). So a broker answers a bounded number of requests, and a
large cluster is looked through in more than one look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import structlog

from coordinator.core.model import Attachments
from coordinator.insight.model.conditions import Condition, ConditionKind
from coordinator.insight.model.outside import Inventory
from coordinator.insight.shell.foreign_attachments import ForeignAttachments
from coordinator.ports import Catalogue, PortError

TENANTS_PER_LOOK: Final = 50

TOLD_MAX: Final = 100
"""The most namespaces that are named as attached in Pulsar alone."""

_log = structlog.get_logger(__name__)


class InventoryWatch:
    """Ask the broker what there is, and tell what has no counterpart.

    Args:
        inventory: the broker's.
        every_s: the time from one look to the next.
        broker_url: the broker's web service, from which a group of Pulsar's can be imported.
        is_made_here: whether sidecars wrote a group of Pulsar's that is in no catalogue.
    """

    def __init__(
        self,
        inventory: Inventory,
        every_s: float,
        broker_url: str,
        is_made_here: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._inventory = inventory
        self._every_s = every_s
        self._broker_url = broker_url
        self._is_made_here = is_made_here
        self._catalogue: Catalogue | None = None
        #: What was found at the last look, to be held against the catalogue of the moment.
        self._orphans: tuple[str, ...] = ()
        #: Owners that Pulsar did not have at some look, and that have been attached ever since.
        self._were_gone: frozenset[str] = frozenset()
        self._only_in_pulsar: tuple[str, ...] = ()
        self._foreign = ForeignAttachments(inventory)
        #: The namespaces of each tenant that was looked at; the one looked at last is the last.
        self._namespaces: dict[str, frozenset[str]] = {}
        self._error = ""

    def catalogue_changed(self, catalogue: Catalogue) -> None:
        """Take over what is defined and attached."""
        self._catalogue = catalogue
        attachments = catalogue.attachments
        self._were_gone &= attachments.tenants.keys() | attachments.namespaces.keys()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.look()

    async def look(self) -> None:
        """Ask once; what cannot be asked is not known, and nothing is told of it."""
        try:
            await self._ask()
        except PortError as error:
            self._orphans, self._only_in_pulsar, self._namespaces = (), (), {}
            self._foreign.forget()
            if str(error) != self._error:
                _log.info("Pulsar's tenants and groups cannot be looked at", reason=str(error))
            self._error = str(error)
        else:
            self._error = ""

    async def _ask(self) -> None:
        tenants = frozenset(await self._inventory.tenants())
        groups = sorted(await self._inventory.groups())
        if self._catalogue is None:
            return
        attached = self._catalogue.attachments.namespaces
        wanted = {namespace.partition("/")[0] for namespace in attached} & tenants
        kept = {name: found for name, found in self._namespaces.items() if name in wanted}
        turn = [*sorted(wanted - kept.keys()), *kept]
        for tenant in islice(turn, TENANTS_PER_LOOK):
            kept.pop(tenant, None)
            kept[tenant] = frozenset(await self._inventory.namespaces(tenant))
        self._namespaces = kept
        self._orphans = tuple(self._without_counterpart(self._catalogue.attachments, tenants))
        self._were_gone |= frozenset(self._orphans)
        self._only_in_pulsar = tuple(name for name in groups if not self._is_known(name))
        if all(self._is_made_here(name) for name in groups):
            self._foreign.forget()
        else:
            await self._foreign.look(tenants)

    def conditions(self, _now_ns: int) -> Iterator[Condition]:
        """Yield what has no counterpart, by the last answers and the present catalogue."""
        if self._catalogue is None:
            return
        for owner, kind, group in self._attached(self._catalogue.attachments, self._orphans):
            yield Condition(
                ConditionKind.ORPHANED,
                owner,
                f"the {kind} {owner} is attached to {group}, and Pulsar has none of that name",
                f"Detach it (pulsar-quota groups detach --{kind} {owner}), or a new one of that name "
                f"is held to that limit, and {group} cannot be deleted.",
            )
        anew = () if self._error else sorted(self._were_gone.difference(self._orphans))
        for owner, kind, group in self._attached(self._catalogue.attachments, anew):
            yield Condition(
                ConditionKind.ORPHANED,
                owner,
                f"the {kind} {owner} was deleted and made anew, and is attached to {group} as before",
                f"Detach it (pulsar-quota groups detach --{kind} {owner}); attach it again if that limit "
                "is meant for the new one.",
            )
        for name in self._only_in_pulsar:
            if not self._is_known(name):
                yield Condition(
                    ConditionKind.ONLY_IN_PULSAR,
                    name,
                    f"the resource group {name} was made at a broker, so no sidecar limits it: "
                    f"pulsar-quota import --from {self._broker_url} takes it over",
                )

        yield from islice(self._foreign_attachments(self._catalogue.attachments), TOLD_MAX)

    def _foreign_attachments(self, attachments: Attachments) -> Iterator[Condition]:
        for namespace, group in sorted(self._foreign.groups.items()):
            if namespace not in attachments.namespaces and not self._is_made_here(group):
                yield Condition(
                    ConditionKind.ONLY_IN_PULSAR,
                    namespace,
                    f"the namespace {namespace} was attached to {group} at a broker, so no sidecar "
                    f"limits it: pulsar-quota import --from {self._broker_url} takes it over",
                )

    @staticmethod
    def _attached(
        attachments: Attachments, owners: Iterable[str]
    ) -> Iterator[tuple[str, str, str]]:
        """Those of these owners that are attached now, each with its kind and its group."""
        for owner in owners:
            kind = "namespace" if "/" in owner else "tenant"
            groups = attachments.namespaces if "/" in owner else attachments.tenants
            group = groups.get(owner)
            if group is not None:
                yield owner, kind, group

    def _is_known(self, group: str) -> bool:
        catalogue = self._catalogue
        return (catalogue is not None and group in catalogue.groups) or self._is_made_here(group)

    def _without_counterpart(
        self, attachments: Attachments, tenants: frozenset[str]
    ) -> Iterator[str]:
        yield from (tenant for tenant in attachments.tenants if tenant not in tenants)
        for namespace in attachments.namespaces:
            tenant = namespace.partition("/")[0]
            found = self._namespaces.get(tenant)
            if tenant not in tenants or (found is not None and namespace not in found):
                yield namespace

"""Back to Pulsar's own resource groups: records at the limits, no native groups, no rest, former rates.

For use when no sidecar runs any more: a running one would set all of it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from coordinator.core.model import Attachments, Member, Rates
from coordinator.native.engine.entries import BYTES_MAX, MESSAGES_MAX, NOTHING, UNLIMITED, Record
from coordinator.native.engine.outside import EntryTopic, NativeAdmin, TopicPolicies
from coordinator.native.engine.rate_policy import LEAST, NO_RATE
from coordinator.native.engine.sets import ALL_OF, is_settable, sets_of
from coordinator.native.engine.table import REST, Statement
from coordinator.native.shell.kept_rates import (
    give_back,
    give_subscriptions_back,
    give_topics_back,
)
from coordinator.ports import Catalogue, InUse, NotFound, PortError

_HEARS_REST_S: Final = 0.5


class GivingBack:
    """Restores Pulsar's own resource groups, once.

    Args:
        admin: of any broker.
        policies: of topics, by any broker.
        topic: of entries.
        cluster_group: the group that everything counts against; empty is none.
    """

    def __init__(
        self,
        admin: NativeAdmin,
        policies: TopicPolicies,
        topic: EntryTopic,
        cluster_group: str,
    ) -> None:
        self._admin = admin
        self._policies = policies
        self._topic = topic
        self._cluster_group = cluster_group
        self._limits: dict[str, Rates] = {}
        self._attachments = Attachments()
        self._catalogue = asyncio.Event()
        self._members: tuple[Member, ...] | None = None
        self._membership = asyncio.Event()
        self._rest: set[str] = set()
        #: Of namespaces with rates that could not be given back, the reason.
        self.failed: list[str] = []
        topic.watch(self._heard)

    def catalogue_changed(self, catalogue: Catalogue) -> None:
        """Take all definitions and attachments."""
        self._limits = {
            name: entry.group.limits_rounded_up for name, entry in catalogue.groups.items()
        }
        self._attachments = catalogue.attachments
        self._catalogue.set()

    def members_changed(self, members: tuple[Member, ...]) -> None:
        """Take the live members."""
        self._members = members
        self._membership.set()

    async def check_that_none_is_alive(self) -> None:
        """Return once the membership is known and empty.

        Raises:
            InUse: sidecars are alive.
        """
        await self._membership.wait()
        if self._members:
            names = ", ".join(member.broker for member in self._members)
            raise InUse(f"Stop the sidecars first; alive are {names}.")

    async def run(self) -> list[str]:
        """Restore all; return the steps in words.

        Raises:
            InUse: sidecars are alive.
            PortError: the broker does not answer, or does not allow it.
        """
        await self.check_that_none_is_alive()
        await self._catalogue.wait()
        done = await self._attach()
        done += await self._set_records()
        done += await self._set_rates()
        return done + await self._remove_rest()

    async def _attach(self) -> list[str]:
        """Leave none of the groups that stand for several.

        Those that Pulsar has are looked at, not those that the attachments ask for, as attachments may
        have changed while no sidecar ran.
        """
        records = frozenset(await self._admin.record_names())
        standing = {name for name in records if name.startswith(ALL_OF)}
        if not standing:
            return []
        done = []
        existing = await self._namespaces()
        sets = sets_of(self._attachments, existing, self._cluster_group)
        for namespace in existing:
            narrowest = next(iter(sets.get(namespace, ())), "")
            present = await self._group_of(namespace)
            if present in standing and present != narrowest:
                to = narrowest if narrowest in records else ""
                await self._admin.attach(namespace, to)
                done.append(f"{namespace} " + (f"attached to {to} alone" if to else "detached"))
        for name in sorted(standing - self._limits.keys()):
            self._rest.add(name)
            await self._admin.remove_record(name)
            done.append(f"{name} removed")
        return done

    async def _namespaces(self) -> list[str]:
        tenants = await self._admin.tenants()
        existing = [name for tenant in tenants for name in await self._admin.namespaces(tenant)]
        return [*filter(is_settable, existing)]

    async def _group_of(self, namespace: str) -> str | None:
        try:
            return await self._admin.group_of(namespace)
        except (NotFound, ValueError):
            return None  # no sidecar can ask for such a name, nor attach it; _set_rates_of tells it

    async def _set_records(self) -> list[str]:
        done = []
        for name, limits in sorted(self._limits.items()):
            self._rest.add(name)
            record = Record(
                _rate(limits.publish_messages, MESSAGES_MAX), _rate(limits.publish_bytes, BYTES_MAX)
            )
            if await self._admin.record(name) not in (None, record):
                await self._admin.set_record(name, record)
                done.append(f"{name} set to {record.messages} msg/s and {record.bytes} B/s")
        return done

    async def _set_rates(self) -> list[str]:
        """Look at all topics, as one's limit may have been taken away while no sidecar ran."""
        done = []
        for namespace in await self._namespaces():
            given = await self._set_rates_of(namespace)
            if given:
                done.append(f"{namespace}: {given} rates given back")
        return done

    async def _set_rates_of(self, namespace: str) -> int:
        """Give all rates back that can be; return how many, and note why others cannot."""
        given, reason = 0, ""
        for give in self._givings(namespace):
            try:
                given += await give()
            except NotFound:
                break  # deleted meanwhile
            except (
                PortError,
                ValueError,
            ) as error:  # the second one of a name that nothing can have
                reason = reason or f"{namespace}: {error}"
        if reason:
            self.failed.append(reason)
        return given

    def _givings(self, namespace: str) -> Iterator[Callable[[], Awaitable[int]]]:
        for policies in self._policies:
            yield partial(give_back, policies, namespace)
            yield partial(give_topics_back, policies, namespace, lambda _: NO_RATE)
        yield partial(give_subscriptions_back, self._policies.dispatch, namespace)

    async def _remove_rest(self) -> list[str]:
        """Set the rest to 0 in any case: rows never expire at the brokers."""
        while not self._topic.health().connected:  # noqa: ASYNC110 - nothing tells when it is
            await asyncio.sleep(0.05)
        await asyncio.sleep(_HEARS_REST_S)
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._topic.write(
            REST, dict.fromkeys(self._rest, NOTHING), written.set_result, stands_in=True
        )
        return ["the rest set to 0"] if await written else ["the rest could not be set to 0"]

    def _heard(self, said: Statement) -> None:
        if said.broker == REST:
            self._rest |= said.amounts.keys()


def _rate(limit: int | None, most: int) -> int:
    """Return a limit as Pulsar keeps it; never 0, which it takes for no limit."""
    return UNLIMITED if limit is None else min(most, max(LEAST, limit))

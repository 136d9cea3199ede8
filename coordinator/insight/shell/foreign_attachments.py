"""The namespaces that Pulsar itself attaches to resource groups, asked for one by one.

There is no list of them, so the namespaces of all tenants take turns: each look asks a bounded number of
questions and goes on where the last one ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from coordinator.insight.model.outside import Inventory

QUESTIONS_PER_LOOK: Final = 100


class ForeignAttachments:
    """The attachments that were made at a broker, as far as they were asked for.

    Args:
        inventory: the broker's.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        #: The group of each namespace that has one in Pulsar.
        self.groups: dict[str, str] = {}
        self._tenants: deque[str] = deque()
        self._namespaces: deque[str] = deque()
        #: The namespaces of the round under way, to forget what exists no more at its end.
        self._met: set[str] = set()

    @property
    def _is_round_over(self) -> bool:
        return not self._tenants and not self._namespaces

    def forget(self) -> None:
        """Forget all; the next look begins anew."""
        self.groups.clear()
        self._tenants.clear()
        self._namespaces.clear()
        self._met.clear()

    async def look(self, tenants: Collection[str]) -> None:
        """Ask for some more namespaces, of these tenants from the next round on.

        Raises:
            BrokerUnreachable: the broker does not answer.
            Refused: it may not be asked.
        """
        if self._is_round_over:
            self._tenants.extend(sorted(tenants))
        for _ in range(QUESTIONS_PER_LOOK):
            if self._is_round_over:
                break
            with suppress(ValueError):  # a name that no group here could limit
                await self._ask()
        if self._is_round_over:
            for gone in self.groups.keys() - self._met:
                del self.groups[gone]
            self._met.clear()

    async def _ask(self) -> None:
        if not self._namespaces:
            self._namespaces.extend(await self._inventory.namespaces(self._tenants.popleft()))
            return
        namespace = self._namespaces.popleft()
        group = await self._inventory.group_of(namespace)
        self._met.add(namespace)
        if group:
            self.groups[namespace] = group
        else:
            self.groups.pop(namespace, None)

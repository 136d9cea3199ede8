"""The own broker: what the coordinator asks of it, and what is handed on to it unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.topics import TopicName


class BrokerAdmin(Protocol):
    """The own broker's admin REST, as far as the coordinator needs it."""

    async def is_answering(self) -> bool:
        """Whether the broker answers that it is ready; never raises."""

    async def namespace_exists(self, tenant: str, namespace: str) -> bool:
        """Whether the namespace exists. Raises BrokerUnreachable when the broker does not say."""

    async def tenant_exists(self, tenant: str) -> bool:
        """Whether the tenant exists. Raises BrokerUnreachable when the broker does not say."""

    async def partitions_of(self, topic: TopicName) -> int:
        """Count a topic's partitions; 1 if it is not partitioned, or does not exist yet.

        Raises:
            BrokerUnreachable: the broker does not say.
        """


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """A request for the broker as it arrived.

    Args:
        method: the verb.
        target: path and query as they were sent, still encoded.
        headers: names and values in order; those of one connection, and the body's length, are left out.
        body: its content.
    """

    method: str
    target: bytes
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class RelayedAnswer:
    """The broker's answer.

    Args:
        status: its code.
        headers: names and values in order.
        body: its pieces; BrokerUnreachable when the broker goes away in the middle.
        close: gives the connection back; to be called in any case.
    """

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: AsyncIterator[bytes]
    close: Callable[[], Awaitable[None]]


class BrokerRelay(Protocol):
    """Requests handed on to the own broker's web service, unchanged both ways."""

    @property
    def address(self) -> str:
        """The URL of that web service."""

    async def relay(self, request: RelayedRequest) -> RelayedAnswer:
        """Send a request and return as soon as the head of the answer is there.

        Raises:
            BrokerUnreachable: the broker cannot be reached, or did not answer.
        """

"""The JSON of enforcement by the broker's own limiter."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from admin_api.schemas.definitions import CamelModel
from coordinator.native.engine.entries import UNLIMITED, Amounts, Record
from coordinator.native.engine.group import NativeView
from coordinator.native.engine.views import NativeState


class UnitsBody(CamelModel):
    """Messages and bytes."""

    messages: int
    bytes: int

    @classmethod
    def of(cls, found: Amounts | Record | tuple[int | None, int | None]) -> Self:
        """Write both; -1 is not limited."""
        messages, size = (UNLIMITED if each is None else each for each in found)
        return cls(messages=messages, bytes=size)


class NativeGroupBody(CamelModel):
    """One resource group in Pulsar, as the answering sidecar steers it at its broker."""

    name: str = Field(description="in Pulsar")
    groups: list[str] = Field(description="that it stands for, narrowest first")
    namespaces: list[str] = Field(description="that are attached to it in Pulsar")
    record: UnitsBody = Field(description="as it should be in Pulsar, per second")
    record_seen: UnitsBody | None = Field(description="as it is there; null: not seen yet")
    part: UnitsBody = Field(description="of the local limits, per second")
    binding: list[str] = Field(description="for messages and bytes, the group that allows no more")
    entry: UnitsBody = Field(description="in this broker's name, of an interval")
    others: UnitsBody = Field(description="in all other brokers' names")
    rest: UnitsBody = Field(description="of the record that no broker gets")
    trim_permille: UnitsBody = Field(description="of its part, for batches, or for what is lost")
    held_permille: UnitsBody = Field(description="of the last poll, that clients waited")
    dispatch: UnitsBody = Field(description="of the local dispatch limits, per second")
    dispatch_topics: int = Field(description="topics here with a dispatch rate for that")

    @classmethod
    def of(cls, view: NativeView) -> Self:
        """Write one group."""
        return cls(
            name=view.name,
            groups=list(view.groups),
            namespaces=list(view.namespaces),
            record=UnitsBody.of(view.record),
            record_seen=None if view.record_seen is None else UnitsBody.of(view.record_seen),
            part=UnitsBody.of(view.part),
            binding=list(view.binding),
            entry=UnitsBody.of(view.entry),
            others=UnitsBody.of(view.others),
            rest=UnitsBody.of(view.rest),
            trim_permille=UnitsBody.of(view.trim_permille),
            held_permille=UnitsBody.of(view.held_permille),
            dispatch=UnitsBody.of(view.dispatch),
            dispatch_topics=view.dispatch_topics,
        )


class NativeConditionBody(CamelModel):
    """A condition that keeps native enforcement from being exact."""

    code: str
    text: str
    fix: str


class NativeBody(CamelModel):
    """The state of native enforcement at the answering sidecar."""

    path: str = Field(description="gate, native or gate+native")
    service_url: str = Field(description="in whose name this broker's entries are")
    interval_seconds: int = Field(
        description="of the broker's resource usage; a limit takes so long"
    )
    transport: str = Field(description="the broker's class for it; empty: it reads no entries")
    margin: float = Field(description="by how much records are above the limits")
    connected: bool = Field(description="whether entries can be written")
    written: int = Field(description="messages that a broker took")
    failed: int = Field(description="messages that none took")
    polled_topics: int
    poll_seconds: float = Field(description="from one reading of the broker's counters to the next")
    groups: list[NativeGroupBody]
    limited_topics: int = Field(description="topics whose own limits are in force, at all brokers")
    conditions: list[NativeConditionBody]

    @classmethod
    def of(cls, path: str, state: NativeState | None) -> Self:
        """Write the state; without one, native enforcement is off."""
        if state is None:
            return cls(
                path=path, service_url="", interval_seconds=0, transport="", margin=0.0,
                connected=False, written=0, failed=0, polled_topics=0, poll_seconds=0.0,
                groups=[], limited_topics=0, conditions=[],
            )  # fmt: skip
        return cls(
            path=path,
            service_url=state.service_url,
            interval_seconds=state.interval_s,
            transport=state.transport,
            margin=state.margin_permille / 1000,
            connected=state.topic.connected,
            written=state.topic.written,
            failed=state.topic.failed,
            polled_topics=state.polled_topics,
            poll_seconds=state.poll_s,
            groups=[NativeGroupBody.of(view) for view in state.groups],
            limited_topics=state.limited_topics,
            conditions=[
                NativeConditionBody(code=each.code, text=each.text, fix=each.fix)
                for each in state.conditions
            ],
        )

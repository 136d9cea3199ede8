"""The requests of native enforcement to the own broker's admin REST.

A broker's answers are parsed by their expected form; any other form raises BrokerUnreachable. Invalid
names raise ValueError before they become part of a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import httpx

from coordinator.adapters.broker.inventory import HttpInventory
from coordinator.adapters.broker.paths import namespace_path
from coordinator.adapters.broker.web_service import accepted, json_in, said
from coordinator.native.engine.entries import UNLIMITED, Record
from coordinator.native.engine.outside import BrokerFacts
from coordinator.ports import BrokerUnreachable
from coordinator.wire.documents import validate_name

_INTERVAL: Final = "resourceUsageTransportPublishIntervalInSecs"
_TRANSPORT: Final = "resourceUsageTransportClassName"
_POLICIES: Final = "topicLevelPoliciesEnabled"
_OPTIONAL = re.compile(r"Optional\[(.*)\]")


class HttpNativeAdmin(HttpInventory):
    """`coordinator.native.engine.outside.NativeAdmin` over HTTP; arguments as `HttpInventory`."""

    async def facts(self) -> BrokerFacts:
        """See `NativeAdmin`."""
        version = accepted(await self._ask("GET", "/brokers/version")).text.strip()
        answer = accepted(await self._ask("GET", "/brokers/configuration/runtime"))
        try:
            return facts_in(json_in(answer), version)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BrokerUnreachable(f"{said(answer)}: {error!r}") from error

    async def record(self, group: str) -> Record | None:
        """See `NativeAdmin`."""
        answer = await self._ask("GET", f"/resourcegroups/{validate_name(group)}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        body = json_in(accepted(answer))
        try:
            return Record(
                _rate(body.get("publishRateInMsgs")), _rate(body.get("publishRateInBytes"))
            )
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise BrokerUnreachable(f"{said(answer)}: {error!r}") from error

    async def record_names(self) -> Sequence[str]:
        """See `NativeAdmin`."""
        return await self.groups()

    async def set_record(self, group: str, record: Record) -> None:
        """See `NativeAdmin`."""
        body = {"publishRateInMsgs": record.messages, "publishRateInBytes": record.bytes}
        accepted(await self._ask("PUT", f"/resourcegroups/{validate_name(group)}", body))

    async def remove_record(self, group: str) -> None:
        """See `NativeAdmin`."""
        accepted(await self._ask("DELETE", f"/resourcegroups/{validate_name(group)}"))

    async def attach(self, namespace: str, group: str) -> None:
        """See `NativeAdmin`."""
        path = f"{namespace_path(namespace)}/resourcegroup"
        if group:
            accepted(await self._ask("POST", f"{path}/{validate_name(group)}"))
        else:
            accepted(await self._ask("DELETE", path))


def facts_in(body: Mapping[str, str], version: str = "") -> BrokerFacts:
    """Read a broker's facts from its runtime configuration, beside its version.

    It reports in the name of its internal listener: of the first advertised one unless it is named, or
    of its own address where none is advertised.
    """
    listeners = [each.strip() for each in (body.get("advertisedListeners") or "").split(",")]
    pairs = [each.partition(":")[::2] for each in listeners if each not in ("", "null")]
    internal = body.get("internalListenerName")
    internal = internal if internal not in (None, "", "null") else (pairs[0][0] if pairs else "")
    urls = [url for name, url in pairs if name == internal and url.startswith("pulsar://")]
    if not urls:
        found = _OPTIONAL.fullmatch(body["brokerServicePort"])
        if found is None:
            raise ValueError("the broker has no plain port, so it reports in no name")
        urls = [f"pulsar://{body['advertisedAddress']}:{found[1]}"]
    transport = body.get(_TRANSPORT) or ""
    transport = "" if transport == "null" else transport
    has_policies = body.get(_POLICIES) != "false"
    return BrokerFacts(urls[0], int(body[_INTERVAL]), transport, has_policies, version)


def _rate(value: object) -> int:
    return UNLIMITED if value is None else int(value)  # type: ignore[call-overload]

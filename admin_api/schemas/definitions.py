"""The JSON of definitions in requests and for Pulsar's tools, and the form of all bodies.

Rates are per second and for the whole cluster unless a field says otherwise. -1 is "not limited" and
becomes None here; 0 lets nothing pass. Names are Pulsar's, in camel case; times end in their unit; shares
run from 0 to 1.

A definition is read as Pulsar's Jackson reads it ("12" is 12, null is absent) except where that would
store another value than was meant: 1.5 (Pulsar stores 1), -5 (Pulsar stores it, and takes it for
unlimited), our own settings under a name that does not exist, and an unknown field, which Pulsar ignores:
a limit under a mistaken name is no limit. Rates go by any of the spellings that PIP-82 has for them
(``PublishRateInbytes``), and Pulsar's rates of replication, which nothing here limits, may be -1.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, fields, replace
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from admin_api.errors import ApiError, sentence_of
from admin_api.requests.names import is_name
from admin_api.schemas.numbers import (
    ByteGuarantee,
    ByteRate,
    MessageGuarantee,
    MessageLimit,
    whole_number,
    whole_up_to,
)
from coordinator.core.allocation.laws import LAWS
from coordinator.core.allocation.splitting import WEIGHTS, fault_of_fractions
from coordinator.core.answer import UNLIMITED, Number, exact_from_wire
from coordinator.core.demand.observing import ENFORCEMENTS, OBSERVE, is_observed
from coordinator.core.handling import MAX_BURST_SECONDS, MAX_HOLD_MILLIS, ON_LIMIT
from coordinator.core.model import Dimension, ExactRates, Rates, ResourceGroup
from coordinator.core.owners import validate_tenants
from coordinator.core.transfer.policies import PARTITION_POLICIES, POLICIES
from coordinator.core.transfer.tree_rules import MAX_WEIGHT
from coordinator.insight.model.definitions import GUARANTEES
from coordinator.insight.model.rates import RatesView

_MISTAKES_TOLD = 5
"""The most unknown fields of one body that are named; a hostile one has thousands."""


def _one_of(names: Collection[str]) -> BeforeValidator:
    def parse(value: object) -> str | None:
        if value is None or (isinstance(value, str) and value in names):
            return value
        raise PydanticCustomError(
            "name",
            "must be one of {names}, but is {shown}",
            {"names": ", ".join(sorted(names)), "shown": json.dumps(value)[:40]},
        )

    return BeforeValidator(parse)


def _group_or_none(value: object) -> str | None:
    if value is None or value == "" or (isinstance(value, str) and is_name(value)):
        return value
    raise PydanticCustomError(
        "name", "must be a group's name or empty, but is {shown}", {"shown": json.dumps(value)[:40]}
    )


def _tenants_or_none(value: object) -> tuple[str, ...] | None:
    try:
        return None if value is None else validate_tenants(value)
    except ValueError as error:
        raise PydanticCustomError("tenants", "{fault}", {"fault": str(error)}) from error


class CamelModel(BaseModel):
    """Fields in snake case here, in camel case on the wire."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, frozen=True
    )


class RequestBody(CamelModel):
    """A request's body; mistakes in it are reported field by field."""

    #: Further names of fields, in small letters; the case of these does not matter.
    spellings: ClassVar[Mapping[str, str]] = {}
    #: Fields that may only be null or -1, and why.
    not_limited: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def described(cls) -> dict[str, Any]:
        """Return it for the API's description: `requests.body` reads bodies by hand, to bound them."""
        content = {"application/json": {"schema": cls.model_json_schema()}}
        return {"requestBody": {"required": True, "content": content}}

    @classmethod
    def parse(cls, body: dict[str, object]) -> Self:
        """Read a request's body.

        Raises:
            ApiError: 400, naming every field that cannot be accepted and what would be.
        """
        fields: dict[str, object] = {}
        mistakes = list(cls._sort(body, fields))
        more = len(mistakes) - _MISTAKES_TOLD
        if more > 0:
            mistakes[_MISTAKES_TOLD:] = [f"and {more:,} more field{'' if more == 1 else 's'}"]
        try:
            read = cls.model_validate(fields)
        except ValidationError as error:
            mistakes.insert(0, sentence_of(error.errors()))
        else:
            if not mistakes:
                return read
        raise ApiError(400, "; ".join(mistakes))

    @classmethod
    def _sort(cls, body: dict[str, object], fields: dict[str, object]) -> Iterator[str]:
        """Collect every field under its own name; yield the faults of the others."""
        names = {field.alias or name: name for name, field in cls.model_fields.items()}
        for given, value in body.items():
            name = given if given in names else cls.spellings.get(given.lower(), given)
            if name in fields:
                yield f"{name}: stands twice, also as {given:.80}; send it once"
            elif name in names:
                fields[name] = value
            elif name in cls.not_limited:
                if value is not None and whole_number(value) != UNLIMITED:
                    yield f"{name}: {cls.not_limited[name]}; leave it out, or send -1"
            elif value is not None:
                yield f"{given:.80}: unknown field; known are {', '.join(names)}"


_RATES = ("publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes")
_REPLICATION_RATES = ("replicationDispatchRateInMsgs", "replicationDispatchRateInBytes")


class GroupPatch(RequestBody):
    """The body of a group's PUT: a field that is absent or null keeps its value."""

    # PIP-82 writes `PublishRateInbytes` in requests, and `PublishRatelimitinbytes` in answers.
    spellings: ClassVar[Mapping[str, str]] = {
        spelling.lower(): name
        for name in (*_RATES, *_REPLICATION_RATES)
        for spelling in (name, name.replace("RateIn", "RateLimitIn"))
    }
    not_limited: ClassVar[Mapping[str, str]] = dict.fromkeys(
        _REPLICATION_RATES, "replication is exempt here, so no limit of it would hold"
    )

    publish_rate_in_msgs: MessageLimit = Field(
        None, description="messages/s, up to three decimals; -1 = not limited"
    )
    publish_rate_in_bytes: ByteRate = Field(None, description="bytes/s; -1 = not limited")
    dispatch_rate_in_msgs: MessageLimit = Field(
        None, description="messages/s, up to three decimals; -1 = not limited"
    )
    dispatch_rate_in_bytes: ByteRate = Field(None, description="bytes/s; -1 = not limited")
    law: Annotated[str | None, _one_of(LAWS)] = Field(None, description="how a limit is shared")
    weights: Annotated[str | None, _one_of(WEIGHTS)] = Field(
        None, description="how many times a broker counts: once, or once per active topic"
    )
    overshoot_policy: Annotated[str | None, _one_of(POLICIES)] = Field(
        None, description="how a new share becomes a limit"
    )
    partition_policy: Annotated[str | None, _one_of(PARTITION_POLICIES)] = Field(
        None, description="what happens past the end of the ZooKeeper session"
    )
    enforcement: Annotated[str | None, _one_of(ENFORCEMENTS)] = Field(
        None, description="observe = count what would be held back, and hold back nothing"
    )
    observes: Annotated[str | None, BeforeValidator(_group_or_none)] = Field(
        None,
        description="with enforcement observe: the group whose traffic counts; empty = its own",
    )
    on_limit: Annotated[str | None, _one_of(ON_LIMIT)] = Field(
        None, description="publishes above the limit: hold, or refuse after hold_millis"
    )
    hold_millis: Annotated[int | None, whole_up_to(0, MAX_HOLD_MILLIS)] = Field(
        None, description="with refuse: ms for which a publish is held before it fails"
    )
    burst_seconds: Annotated[int | None, whole_up_to(0, MAX_BURST_SECONDS)] = Field(
        None,
        description="s of the limit that it may save up; 0 = as much as the configuration says",
    )
    parent: Annotated[str | None, BeforeValidator(_group_or_none)] = Field(
        None, description="the group whose limit it shares with its siblings; empty = none"
    )
    weight: Annotated[int | None, whole_up_to(1, MAX_WEIGHT)] = Field(
        None, description="how many times it counts in what guarantees leave of the parent's limit"
    )
    publish_guarantee_in_msgs: MessageGuarantee = Field(
        None, description="messages/s that it gets of the parent's limit before others get more"
    )
    publish_guarantee_in_bytes: ByteGuarantee = Field(None, description="the same in bytes/s")
    dispatch_guarantee_in_msgs: MessageGuarantee = Field(
        None, description="of dispatch, messages/s"
    )
    dispatch_guarantee_in_bytes: ByteGuarantee = Field(None, description="of dispatch, bytes/s")
    allowed_tenants: Annotated[tuple[str, ...] | None, BeforeValidator(_tenants_or_none)] = Field(
        None, description="tenants whose admins may attach to it; [] = none, super-users only"
    )

    def applied_to(self, group: ResourceGroup) -> ResourceGroup:
        """Return the definition after this change."""
        before = group.exact_limits
        sent = {
            each: getattr(self, field.name)
            for each, field in zip(Dimension, fields(RatesView), strict=True)
        }
        limits = ExactRates.from_mapping(
            {
                each: before.of(each) if rate is None else exact_from_wire(rate)
                for each, rate in sent.items()
            }
        )
        promised = {each: getattr(self, name) for each, name in GUARANTEES.items()}
        guarantees = {
            each: group.guarantees.of(each) if rate is None else rate or None
            for each, rate in promised.items()
        }
        given = {name: getattr(self, name) for name in _SETTINGS if getattr(self, name) is not None}
        return replace(
            group,
            limits=limits.whole,
            fractions=limits.fractions,
            guarantees=Rates.from_mapping(guarantees),
            **given,
        )


_SETTINGS = tuple(
    field.name for field in fields(ResourceGroup) if field.name in GroupPatch.model_fields
)
"""The settings that a body names as the definition does."""


def check_definition(group: ResourceGroup) -> None:
    """Refuse a definition whose settings do not go together.

    Raises:
        ApiError: 400, naming the field.
    """
    if group.observes == group.name:
        raise ApiError(400, "observes: must name another group; leave it empty for the own traffic")
    if group.observes and not is_observed(group):
        raise ApiError(400, f"observes: needs enforcement {OBSERVE}, or must be empty")
    if fault := fault_of_fractions(group):
        raise ApiError(400, fault)


class PulsarGroup(CamelModel):
    """A group as Pulsar's tools read it: alone, whatever tree it is in.

    Our own settings are written only where they differ from the default: a group without them looks
    exactly as Pulsar would show it, and a tool that reads a group and puts it back loses nothing.
    """

    publish_rate_in_msgs: Number
    publish_rate_in_bytes: Number
    dispatch_rate_in_msgs: Number
    dispatch_rate_in_bytes: Number
    law: str | None = None
    weights: str | None = None
    overshoot_policy: str | None = None
    partition_policy: str | None = None
    enforcement: str | None = None
    observes: str | None = None
    on_limit: str | None = None
    hold_millis: int | None = None
    burst_seconds: int | None = None
    allowed_tenants: tuple[str, ...] | None = None

    @classmethod
    def of(cls, group: ResourceGroup) -> Self:
        """Write one definition."""
        changed = {
            field.name: value
            for field in fields(ResourceGroup)
            if field.name in cls.model_fields
            and (value := getattr(group, field.name)) != field.default
        }
        return cls(**asdict(RatesView.limits(group.exact_limits)), **changed)

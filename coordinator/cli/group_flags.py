"""The flags of a resource group's definition, alike for every command that takes one.

Each flag is named after its field of the API, so that a new setting is one entry here. The short ones are
those of ``pulsar-admin resourcegroups``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Final

import typer

from coordinator.cli.fields import FieldValue
from coordinator.core.answer import Number
from coordinator.core.rates import number_of, rate_of

Fields = dict[str, FieldValue]
"""Fields of a definition that were given, by their name in the API."""


def _number(help_: str, *flags: str) -> Any:
    return Annotated[int | None, typer.Option(*flags, help=help_)]


def _limit_of(text: str) -> Number:
    rate = rate_of(int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else _float_of(text))
    if rate is None:
        raise typer.BadParameter(f"{text!r:.40} is no number with at most three decimals.")
    return number_of(rate)


def _float_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _limit(help_: str, *flags: str) -> Any:
    return Annotated[
        float | None, typer.Option(*flags, help=help_, parser=_limit_of, metavar="NUMBER")
    ]


def _text(help_: str, flag: str, metavar: str | None = None) -> Any:
    return Annotated[str | None, typer.Option(flag, help=help_, metavar=metavar)]


FLAGS: Final[Mapping[str, Any]] = {
    "publishRateInMsgs": _limit(
        "Publish, messages/s, up to three decimals; -1 = not limited.", "--msg-publish-rate", "-mp"
    ),
    "publishRateInBytes": _number(
        "Publish, bytes/s; -1 = not limited.", "--byte-publish-rate", "-bp"
    ),
    "dispatchRateInMsgs": _limit(
        "Dispatch, messages/s, up to three decimals; -1 = not limited.",
        "--msg-dispatch-rate",
        "-md",
    ),
    "dispatchRateInBytes": _number(
        "Dispatch, bytes/s; -1 = not limited.", "--byte-dispatch-rate", "-bd"
    ),
    "law": _text("Law by which the limit is shared, such as max-min.", "--law"),
    "weights": _text("Weight of a broker: equal, or topics (active ones).", "--weights"),
    "overshootPolicy": _text(
        "Policy that turns a share into a limit: balanced, eager or strict.", "--overshoot-policy"
    ),
    "partitionPolicy": _text(
        "Without ZooKeeper: hold, safe (an equal part) or stop.", "--partition-policy"
    ),
    "enforcement": _text(
        "observe counts what would wait and holds nothing; or enforce.", "--enforcement"
    ),
    "observes": _text(
        "With observe: try it on this group's traffic; empty = its own.", "--observes", "G"
    ),
    "onLimit": _text(
        "Publishes above the limit: hold, or refuse after --hold-millis.", "--on-limit"
    ),
    "holdMillis": _number(
        "With refuse: milliseconds for which a publish waits first.", "--hold-millis"
    ),
    "burstSeconds": _number(
        "Seconds of the limit that it may save up; 0 = as configured for all.", "--burst-seconds"
    ),
    "parent": _text("Group whose limit it shares with others; empty = none.", "--parent", "G"),
    "weight": _number("How many times it counts in what guarantees leave of that.", "--weight"),
    "publishGuaranteeInMsgs": _number(
        "Of that, publish, messages/s, before others.", "--msg-publish-guarantee"
    ),
    "publishGuaranteeInBytes": _number(
        "Of that, publish, bytes/s, before others.", "--byte-publish-guarantee"
    ),
    "dispatchGuaranteeInMsgs": _number(
        "Of that, dispatch, messages/s, before others.", "--msg-dispatch-guarantee"
    ),
    "dispatchGuaranteeInBytes": _number(
        "Of that, dispatch, bytes/s, before others.", "--byte-dispatch-guarantee"
    ),
    "allowedTenants": _text(
        "Tenants whose admins may attach to it; empty = super-users only.",
        "--allowed-tenants",
        "T,T",
    ),
}


_LISTS: Final = frozenset({"allowedTenants"})
"""Fields whose flag takes names between commas, or nothing for an empty list."""


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with a flag per field, in place of its parameter ``fields``."""

    @wraps(command)
    def flagged(**given: Any) -> None:
        fields = {name: given.pop(name) for name in FLAGS}
        for name in _LISTS:
            if fields[name] is not None:
                fields[name] = [each.strip() for each in fields[name].split(",") if each.strip()]
        command(**given, fields={name: it for name, it in fields.items() if it is not None})

    parameters: list[Parameter] = []
    for each in signature(command, eval_str=True).parameters.values():
        if each.name != "fields":
            parameters.append(each.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in FLAGS.items()
        ]
    flagged.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    flagged.__annotations__ = {each.name: each.annotation for each in parameters}
    return flagged

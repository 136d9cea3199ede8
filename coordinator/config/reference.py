"""The keys of the configuration for people: an example file that says all there is to know of each.

What a key means, its unit and the reason for its default stand once, below its field in ``Config``; the
example is made of that, so the two cannot differ.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from coordinator.config.model import Config

_WIDTH = 100
_FIELD = re.compile(r'^    (\w+): .+?^    """(.+?)"""$', re.MULTILINE | re.DOTALL)

_NEEDED: Mapping[str, str] = {
    "broker_id": "broker-1",
    "gate_listen": "0.0.0.0:6652",
    "gate_upstream": "127.0.0.1:6651",
    "broker_web_url": "http://127.0.0.1:8080",
    "bus_service_url": "pulsar://127.0.0.1:6650",
    "zookeeper_servers": "zk-1:2181,zk-2:2181,zk-3:2181",
}
"""Values for the keys that have no default: those of a broker with Pulsar's own ports."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration.

    Args:
        name: as it stands in the file.
        text: what it means, in which unit, and why its default is what it is.
        default: its value in TOML; None for a key that must be given.
    """

    name: str
    text: str
    default: str | None


def keys() -> tuple[Key, ...]:
    """All keys in the order of ``Config``, which begins with those that must be given."""
    texts = dict(_FIELD.findall(inspect.getsource(Config)))
    return tuple(
        Key(
            item.name,
            " ".join(texts[item.name].split()),
            None
            if item.name in _NEEDED
            else _toml({} if item.default is MISSING else item.default),
        )
        for item in fields(Config)
    )


def example() -> str:
    """A configuration file with every key; those with a default are commented out.

    It is valid as it stands, for a broker on the same machine that has Pulsar's own ports.
    """
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# A sidecar of pulsar-quota: every key, with its default where it has one."
    for key in keys():
        yield ""
        yield from textwrap.wrap(key.text, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        if key.default is None:
            yield f"{key.name} = {_toml(_NEEDED[key.name])}"
        else:
            yield f"#{key.name} = {key.default}"
    yield ""


def _toml(value: Any) -> str:
    """A value as TOML, which agrees with JSON on strings, numbers, booleans and lists of them."""
    return json.dumps(value)

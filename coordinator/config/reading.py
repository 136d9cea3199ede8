"""From a TOML file to a configuration that was checked as a whole. Only ``load`` reads files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from coordinator.config.forms import ConfigError
from coordinator.config.model import NATIVE, Config
from coordinator.config.pulsar_keys import translated
from coordinator.config.rules import broken

_WITHOUT_GATE = {"gate_listen": "", "gate_upstream": ""}
"""Keys that have no default, and no meaning where there is no gate."""

_IN_WORDS = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
"""The types of single values, as who writes the file calls them."""


def load(path: Path, settings: Sequence[str] = ()) -> Config:
    """Read and check a configuration file.

    Args:
        path: of the file.
        settings: ``KEY=VALUE``, in place of what the file says: for what only the place knows where the
            sidecar runs, such as the name of a pod. A value is read as TOML if it is that, or as text.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or says something unusable.
    """
    return from_mapping(document_of(path, settings))


def document_of(path: Path, settings: Sequence[str] = ()) -> dict[str, Any]:
    """Read a configuration file; arguments and error as `load`."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from error
    return document | dict(map(_setting, settings))


def from_mapping(document: Mapping[str, Any]) -> Config:
    """Build a checked Config from keys and values.

    Raises:
        ConfigError: keys are unknown, missing or contradictory, or values cannot be used: a line each.
    """
    document = translated(document)
    if document.get("enforcement_path") == NATIVE:
        document = _WITHOUT_GATE | document
    hints = get_type_hints(Config, include_extras=True)
    _refuse(_faults(document, hints))
    config = Config(**{key: _frozen(value, hints[key]) for key, value in document.items()})
    _refuse(broken(config))
    return config


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ConfigError(f"{text!r}: write KEY=VALUE, for example broker_id=broker-1")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def _refuse(faults: Iterable[str]) -> None:
    if told := "\n".join(faults):
        raise ConfigError(told)


def _faults(document: Mapping[str, Any], hints: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of single keys."""
    for item in fields(Config):
        required = item.default is MISSING and item.default_factory is MISSING
        if required and item.name not in document:
            yield f"{item.name}: missing; it has no default"
    for key, value in document.items():
        if key in hints:
            yield from _unfit(key, value, hints[key])
        else:
            yield f"{key}: unknown key; known are {', '.join(hints)}"


def _unfit(key: str, value: Any, hint: Any) -> Iterator[str]:
    """Yield why a value of TOML is none of a key's type, or has not its form."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        found = tuple(_unfit(key, value, parts[0]))
        shown = f"{'is ' if isinstance(value, int | float) else ''}{value!r}"
        forms = () if found else parts[1:]
        yield from found
        yield from (f"{key} {shown}: {form.fix}" for form in forms if not form.accepts(value))
    elif origin is Literal:
        if value not in parts:
            yield f"{key} {value!r}: use one of {', '.join(parts)}"
    elif origin is tuple:
        if not isinstance(value, list):
            yield f"{key}: write a list of strings, got {value!r}"
        else:
            yield from (fault for each in value for fault in _unfit(key, each, parts[0]))
    elif origin is Mapping:
        if not isinstance(value, dict):
            yield f"{key}: write a table of lists of strings, got {value!r}"
        else:
            for name, each in value.items():
                yield from _unfit(f"{key}.{name}", each, parts[1])
    elif type(value) is not hint and (hint, type(value)) != (float, int):
        yield f"{key}: write {_IN_WORDS[hint]}, got {value!r}"


def _frozen(value: Any, hint: Any) -> Any:
    """Return a value that fits as the field has it."""
    if isinstance(value, dict):
        return {name: tuple(each) for name, each in value.items()}
    if isinstance(value, list):
        return tuple(value)
    return float(value) if float in get_args(hint) else value

"""From a TOML file to a configuration that was checked as a whole. Only ``load`` reads files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from coordinator.config.model import NATIVE, Config
from coordinator.config.pulsar_keys import translated
from coordinator.config.rules import ConfigError, check

_WITHOUT_GATE = {"gate_listen": "", "gate_upstream": ""}
"""Keys that have no default, and no meaning where there is no gate."""


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
        ConfigError: a key is unknown or missing, or a value has the wrong type or is out of range.
    """
    document = translated(document)
    if document.get("enforcement_path") == NATIVE:
        document = _WITHOUT_GATE | dict(document)
    known = {item.name: item for item in fields(Config)}
    for key in document:
        if key not in known:
            raise ConfigError(f"{key}: unknown key; known are {', '.join(known)}")
    for name, item in known.items():
        required = item.default is MISSING and item.default_factory is MISSING
        if required and name not in document:
            raise ConfigError(f"{name}: missing; it has no default")
    hints = get_type_hints(Config)
    config = Config(**{key: _typed(key, value, hints[key]) for key, value in document.items()})
    check(config)
    return config


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ConfigError(f"{text!r}: write KEY=VALUE, for example broker_id=broker-1")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def _typed(key: str, value: Any, hint: Any) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint == tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ConfigError(f"{key}: write a list of strings, got {value!r}")
    if hint == Mapping[str, tuple[str, ...]]:
        if not isinstance(value, dict):
            raise ConfigError(f"{key}: write a table of lists of strings, got {value!r}")
        return {
            name: _typed(f"{key}.{name}", item, tuple[str, ...]) for name, item in value.items()
        }
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{key}: write a {hint.__name__}, got {value!r}")
    return value

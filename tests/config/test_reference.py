"""The example configuration says all there is to know, and is what the repository shows."""

import tomllib
from dataclasses import fields
from pathlib import Path

from coordinator.config import Config, from_mapping
from coordinator.config.reference import example, keys

SHOWN = Path(__file__).parents[2] / "deploy" / "example" / "sidecar.toml"


def test_every_key_is_explained() -> None:
    """A key without a text, or one that does not exist, cannot be in the reference."""
    assert {key.name for key in keys()} == {item.name for item in fields(Config)}
    assert all(key.text.endswith(".") for key in keys())


def test_the_example_is_a_configuration() -> None:
    """A user may start from it as it stands; only what differs from the defaults need be changed."""
    given = tomllib.loads(example())

    assert from_mapping(given).broker_id == "broker-1"
    assert set(given) == {key.name for key in keys() if key.default is None}


def test_the_defaults_in_the_example_are_the_real_ones() -> None:
    """Taking away every comment sign changes nothing."""
    required = tomllib.loads(example())
    shown = {
        key.name: tomllib.loads(f"value = {key.default}")["value"]
        for key in keys()
        if key.default is not None
    }

    assert from_mapping(required | shown) == from_mapping(required)


def test_the_example_in_the_repository_is_current() -> None:
    """`pulsar-quota config example > deploy/example/sidecar.toml` writes it anew."""
    assert SHOWN.read_text(encoding="utf-8") == example()

"""The configuration: everything is checked, and every refusal names the key and the fix."""

from pathlib import Path
from typing import Any

import pytest

from coordinator.config import Config, ConfigError, from_mapping, load

GOOD: dict[str, Any] = {
    "broker_id": "broker-1",
    "gate_listen": "127.0.0.1:6650",
    "gate_upstream": "127.0.0.1:16650",
    "broker_web_url": "http://127.0.0.1:8080",
    "bus_service_url": "pulsar://127.0.0.1:6651",
    "zookeeper_servers": "127.0.0.1:2181",
}


def test_the_needed_keys_are_enough() -> None:
    """Everything else has a default."""
    config = from_mapping(GOOD)

    assert config.admin_listen == "127.0.0.1:8087"
    assert config.core_settings().round_ns == 1_000_000_000


def test_a_file_is_read(tmp_path: Path) -> None:
    """TOML, with whole numbers accepted where seconds are meant."""
    path = tmp_path / "sidecar.toml"
    lines = [f'{key} = "{value}"' for key, value in GOOD.items()]
    lines += ["report_interval_seconds = 2", 'bus_topics = ["non-persistent://a/b/c"]']
    path.write_text("\n".join(lines))

    config = load(path)
    assert config.report_interval_seconds == 2.0
    assert config.bus_topics == ("non-persistent://a/b/c",)


@pytest.mark.parametrize("key", GOOD)
def test_a_missing_key_is_named(key: str) -> None:
    """Keys without a default must be there."""
    with pytest.raises(ConfigError, match=f"{key}: missing"):
        from_mapping({name: value for name, value in GOOD.items() if name != key})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("brokr_id", "x", "brokr_id: unknown key; known are broker_id"),
        ("broker_id", "", "broker_id '': use letters"),
        ("broker_id", "a/b", "broker_id 'a/b': use letters"),
        ("broker_id", 7, "broker_id: write a str, got 7"),
        ("gate_listen", "6650", "gate_listen '6650': write host:port"),
        ("gate_listen", "127.0.0.1:66500", "gate_listen '127.0.0.1:66500': write host:port"),
        ("broker_web_url", "127.0.0.1:8080", "broker_web_url '127.0.0.1:8080': it must start"),
        ("bus_service_url", "http://x", "bus_service_url 'http://x': it must start"),
        ("bus_topics", [], "bus_topics: name at least one topic"),
        ("bus_topics", "x", "bus_topics: write a list of strings"),
        ("bus_topics", ["usage"], "bus_topics 'usage': it must start"),
        ("zookeeper_root", "quota", "zookeeper_root 'quota': it must start with /"),
        ("zookeeper_servers", "localhost", "zookeeper_servers 'localhost': write host:port"),
        ("zookeeper_session_timeout_seconds", 0.1, "zookeeper_session_timeout_seconds is 0.1"),
        ("report_interval_seconds", 0, "report_interval_seconds is 0.0: use 0.1 to 300"),
        ("report_interval_seconds", "1", "report_interval_seconds: write a float, got '1'"),
        ("report_interval_seconds", True, "report_interval_seconds: write a float, got True"),
        ("held_bytes_max", 1024, "held_bytes_max is 1024: use"),
        ("log_level", "loud", "log_level 'loud': use one of debug"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_fix(key: str, value: object, message: str) -> None:
    """Unknown keys, wrong types and values out of range."""
    with pytest.raises(ConfigError) as refusal:
        from_mapping({**GOOD, key: value})

    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error names the file."""
    path = tmp_path / "sidecar.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="not a TOML file"):
        load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The error names the file and the reason."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read: No such file"):
        load(tmp_path / "nowhere.toml")


def test_every_key_is_explained() -> None:
    """The docstring of Config says what each key means."""
    assert Config.__doc__ is not None
    for key in Config.__dataclass_fields__:
        assert f"        {key}: " in Config.__doc__

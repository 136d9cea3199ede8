"""The configuration: everything is checked, and every refusal names the key and the fix."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from coordinator.backlog.rules.guard import Enforcement
from coordinator.config import Config, ConfigError, from_mapping, hints, load, split_address
from coordinator.core.model import Rates

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


def test_limits_of_the_broker_are_read_as_rates() -> None:
    """-1 is no limit, as in Pulsar, and 0 lets nothing pass."""
    own = {"broker_publish_rate_in_msgs": 0, "broker_dispatch_rate_in_bytes": 7}
    config = from_mapping(GOOD | own)

    assert config.broker_limits == Rates(publish_messages=0, dispatch_bytes=7)
    assert config.subscribe_rate is None


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
        ("broker_publish_rate_in_msgs", -2, "broker_publish_rate_in_msgs is -2: use -1 to"),
        ("partition_publish_rate_in_msgs", -2, "partition_publish_rate_in_msgs is -2: use -1 to"),
        ("subscribe_rate_per_consumer", -2, "subscribe_rate_per_consumer is -2: use -1 to"),
        ("subscribe_rate_period_seconds", 0, "subscribe_rate_period_seconds is 0: use 1 to"),
        ("limit_mode", "soft", "limit_mode 'soft': use one of bucket, window"),
        ("topic_limit_mode", "hard", "topic_limit_mode 'hard': use one of bucket, window, soft"),
        ("cluster_group", "a/b", "cluster_group 'a/b': use letters"),
        ("delayed_group", "a/b", "delayed_group 'a/b': use letters"),
        ("backlog_check_seconds", 0.5, "backlog_check_seconds is 0.5: use 1.0 to"),
        ("backlog_age", "exact", "backlog_age 'exact': use one of precise, estimated"),
        ("backlog_enforcement_seconds", 0.1, "backlog_enforcement_seconds is 0.1: use 1.0 to"),
        ("backlog_enforced_namespaces", ["shop"], "backlog_enforced_namespaces 'shop': write"),
        ("backlog_dry_run_namespaces", [" a/b"], "backlog_dry_run_namespaces ' a/b': write"),
        ("gate_listen", "6650", "gate_listen '6650': write host:port"),
        ("gate_listen", "127.0.0.1:66500", "gate_listen '127.0.0.1:66500': write host:port"),
        (
            "gate_tls_listen",
            "0.0.0.0:6651",
            "gate_tls_certificate_file, gate_tls_key_file: missing",
        ),
        ("gate_tls_key_file", "k.pem", "gate_tls_listen, gate_tls_certificate_file: missing"),
        ("gate_tls_client_ca_file", "ca.pem", "gate_tls_client_ca_file: means nothing without"),
        (
            "gate_upstream_tls_certificate_file",
            "c.pem",
            "gate_upstream_tls_certificate_file: means nothing without gate_upstream_tls = true",
        ),
        ("publish_buffer_bytes_max", 1, "publish_buffer_bytes_max is 1: use 8388608 to"),
        ("pending_publish_requests_max", -1, "pending_publish_requests_max is -1: use 0 to"),
        ("broker_web_url", "127.0.0.1:8080", "broker_web_url '127.0.0.1:8080': it must start"),
        (
            "broker_web_url",
            "http://::1:8080",
            "broker_web_url 'http://::1:8080': '::1:8080' is no host",
        ),
        ("broker_web_url", "http://", "broker_web_url 'http://': '' is no host or host:port"),
        ("broker_web_url", "http://a b:1", "broker_web_url 'http://a b:1': 'a b:1' is no host"),
        ("gate_listen", "*:6652", "gate_listen '*:6652': write host:port"),
        ("gate_upstream", "a/b:6651", "gate_upstream 'a/b:6651': write host:port"),
        (
            "zookeeper_servers",
            "a:1,b:1/pulsar",
            "zookeeper_servers 'b:1/pulsar': write no path here",
        ),
        ("bus_service_url", "http://x", "bus_service_url 'http://x': it must start"),
        ("bus_topics", [], "bus_topics: name at least one topic"),
        ("bus_topics", "x", "bus_topics: write a list of strings"),
        ("bus_topics", ["usage"], "bus_topics 'usage': it must start"),
        ("zookeeper_root", "quota", "zookeeper_root 'quota': it must start with /"),
        (
            "zookeeper_brokers_path",
            "/loadbalance/",
            "zookeeper_brokers_path '/loadbalance/': it must look like /loadbalance/brokers",
        ),
        ("zookeeper_servers", "localhost", "zookeeper_servers 'localhost': write host:port"),
        ("zookeeper_session_timeout_seconds", 0.1, "zookeeper_session_timeout_seconds is 0.1"),
        ("report_interval_seconds", 0, "report_interval_seconds is 0.0: use 0.1 to 300"),
        (
            "report_interval_seconds",
            60,
            "hold_seconds is 30.0: with report_interval_seconds = 60.0 a silent peer is noticed after",
        ),
        (
            "hold_seconds",
            7.9,
            "hold_seconds is 7.9: with report_interval_seconds = 1.0 a silent peer",
        ),
        ("report_interval_seconds", "1", "report_interval_seconds: write a float, got '1'"),
        ("report_interval_seconds", True, "report_interval_seconds: write a float, got True"),
        ("held_bytes_max", 1024, "held_bytes_max is 1024: use"),
        ("record_dir", 7, "record_dir: write a str, got 7"),
        ("record_cluster", "", "record_cluster: name the cluster"),
        ("record_file_seconds", 0.1, "record_file_seconds is 0.1: use 0.5 to 3600.0"),
        ("record_bytes_max", 1, "record_bytes_max is 1: use 1048576"),
        ("admin_listen", "0.0.0.0:8087", "admin_listen '0.0.0.0:8087': others can reach it"),
        ("admin_listen", "pulsar-1:8087", "admin_listen 'pulsar-1:8087': others can reach it"),
        (
            "admin_advertised_address",
            "broker-1",
            "admin_advertised_address 'broker-1': write host:port",
        ),
        ("admin_requests_per_second", 0, "admin_requests_per_second is 0: use 1 to 100000"),
        ("admin_pass_through", "no", "admin_pass_through: write a bool, got 'no'"),
        (
            "admin_tls_key_file",
            "key.pem",
            "admin_tls_certificate_file, admin_tls_key_file: name both",
        ),
        ("admin_tls_client_ca_file", "ca.pem", "admin_tls_client_ca_file: means nothing without"),
        ("auth_secret_key_file", "secret", "super_user_roles: name at least one role"),
        ("auth_role_claim", "", "auth_role_claim: name a claim"),
        ("super_user_roles", ["admin"], "super_user_roles, tenant_admins: roles mean nothing"),
        ("tenant_admins", {"shop": ["x"]}, "super_user_roles, tenant_admins: roles mean nothing"),
        ("tenant_admins", {"shop": "x"}, "tenant_admins.shop: write a list of strings, got 'x'"),
        ("tenant_admins", ["shop"], "tenant_admins: write a table of lists of strings"),
        ("gate_proxy_roles", ["proxy", ""], "gate_proxy_roles: a role must not be empty"),
        ("gate_basic_roles", "yes", "gate_basic_roles: write a bool, got 'yes'"),
        ("log_level", "loud", "log_level 'loud': use one of debug"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_fix(key: str, value: object, message: str) -> None:
    """Unknown keys, wrong types and values out of range."""
    with pytest.raises(ConfigError) as refusal:
        from_mapping({**GOOD, key: value})

    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("key", ["auth_secret_key_file", "auth_public_key_files"])
def test_with_a_key_the_api_may_listen_anywhere(key: str) -> None:
    """Tenants and their admins are a table."""
    value = "key" if key == "auth_secret_key_file" else ["key"]
    access = {key: value, "super_user_roles": ["admin"], "tenant_admins": {"shop": ["alice"]}}

    config = from_mapping({**GOOD, **access, "admin_listen": "0.0.0.0:8087"})

    assert config.tenant_admins == {"shop": ("alice",)}
    assert config.super_user_roles == ("admin",)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost"])
def test_on_loopback_no_key_is_needed(host: str) -> None:
    """Every user of the machine is trusted."""
    assert from_mapping({**GOOD, "admin_listen": f"{host}:1"}).admin_listen == f"{host}:1"


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
        assert f"\n    {key}: " in inspect.cleandoc(Config.__doc__)


def test_delayed_messages_have_another_group_than_all_messages() -> None:
    """Otherwise the one would count the others."""
    groups = {"cluster_group": "all", "delayed_group": "late"}
    assert from_mapping({**GOOD, **groups}).delayed_group == "late"
    with pytest.raises(ConfigError, match="delayed_group: is cluster_group, too"):
        from_mapping({**GOOD, **groups, "cluster_group": "late"})


def test_tls_at_the_gate_needs_an_address_and_a_pair() -> None:
    """All three are there, and the address is one."""
    tls = {"gate_tls_certificate_file": "c.pem", "gate_tls_key_file": "k.pem"}

    config = from_mapping(GOOD | tls | {"gate_tls_listen": "0.0.0.0:6651"})

    assert config.gate_tls_listen == "0.0.0.0:6651"
    with pytest.raises(ConfigError, match="gate_tls_listen '6651': write host:port"):
        from_mapping(GOOD | tls | {"gate_tls_listen": "6651"})


def test_a_setting_stands_in_place_of_what_the_file_says(tmp_path: Path) -> None:
    """One file serves all pods: what only the pod knows is set when the sidecar starts."""
    path = tmp_path / "sidecar.toml"
    path.write_text("\n".join(f'{key} = "{value}"' for key, value in GOOD.items()))

    config = load(path, ["broker_id=pulsar-broker-0", "report_interval_seconds=2"])

    assert config.broker_id == "pulsar-broker-0"
    assert config.report_interval_seconds == 2.0


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("broker_id", "KEY=VALUE"),
        ("broker_idd=x", "broker_idd: unknown key"),
        ("burst_seconds=fast", "burst_seconds: write a float"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(tmp_path: Path, setting: str, said: str) -> None:
    """As it would be in the file."""
    path = tmp_path / "sidecar.toml"
    path.write_text("\n".join(f'{key} = "{value}"' for key, value in GOOD.items()))

    with pytest.raises(ConfigError, match=said):
        load(path, [setting])


def test_a_namespace_is_guarded_in_earnest_or_as_a_dry_run_not_both() -> None:
    """Either needs checks of backlogs."""
    enforced = {"backlog_enforced_namespaces": ["shop/orders"]}
    config = from_mapping({**GOOD, **enforced, "backlog_dry_run_namespaces": ["shop/returns"]})
    assert config.backlog_enforcement == {
        "shop/orders": Enforcement.ENFORCE,
        "shop/returns": Enforcement.DRY_RUN,
    }
    with pytest.raises(ConfigError, match="backlog_dry_run_namespaces: shop/orders is enforced"):
        from_mapping({**GOOD, **enforced, "backlog_dry_run_namespaces": ["shop/orders"]})
    with pytest.raises(ConfigError, match="means nothing with backlog_check_seconds = 0"):
        from_mapping({**GOOD, **enforced, "backlog_check_seconds": 0})


NATIVE = {key: value for key, value in GOOD.items() if not key.startswith("gate_")} | {
    "enforcement_path": "native"
}


def test_native_enforcement_needs_no_gate() -> None:
    """No key of a gate, and records exactly at the limits."""
    config = from_mapping(NATIVE)
    assert (config.has_gate, config.is_native, config.native_margin_permille) == (False, True, 0)


def test_behind_a_gate_the_brokers_limiter_is_a_little_above() -> None:
    """By a fifth, or what is said."""
    both = GOOD | {"enforcement_path": "gate+native"}
    assert from_mapping(both).native_margin_permille == 200
    assert from_mapping(both | {"native_margin": 0.5}).native_margin_permille == 500
    assert from_mapping(both).has_gate


def test_counters_are_compared_by_default_where_there_is_a_gate() -> None:
    """Without one there is nothing to compare, and a file may say so."""
    assert from_mapping(GOOD).reconciles
    assert not from_mapping(GOOD | {"reconcile_seconds": 0}).reconciles
    assert not from_mapping(NATIVE).reconciles
    assert not from_mapping(NATIVE | {"reconcile_seconds": 0}).reconciles


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (GOOD | {"enforcement_path": "both"}, "enforcement_path"),
        (NATIVE | {"gate_listen": "127.0.0.1:1"}, "gate_listen"),
        (NATIVE | {"gate_upstream_tls": True}, "gate_upstream_tls"),
        (NATIVE | {"broker_publish_rate_in_msgs": 5}, "broker_publish_rate_in_msgs"),
        (NATIVE | {"subscribe_rate_per_consumer": 5}, "subscribe_rate_per_consumer"),
        (NATIVE | {"delayed_group": "d"}, "delayed_group"),
        (NATIVE | {"reconcile_seconds": 1.0}, "reconcile_seconds"),
        (GOOD | {"reconcile_seconds": 0.1}, "reconcile_seconds"),
        (GOOD | {"reconcile_seconds": 61}, "reconcile_seconds"),
        (GOOD | {"reconcile_part": 0}, "reconcile_part"),
        (GOOD | {"reconcile_part": 1.1}, "reconcile_part"),
        (NATIVE | {"native_margin": -0.5}, "native_margin"),
        (NATIVE | {"native_margin": 1.5}, "native_margin"),
        (NATIVE | {"native_headroom": -0.1}, "native_headroom"),
        (NATIVE | {"native_service_url": "http://a"}, "native_service_url"),
        (GOOD | {"native_margin": 0.1}, "native_margin"),
        (GOOD | {"native_headroom": 0.1}, "native_headroom"),
        (GOOD | {"native_service_url": "pulsar://a:1"}, "native_service_url"),
    ],
)
def test_keys_that_contradict_the_path_are_refused(document: dict[str, Any], key: str) -> None:
    """Rather than ignored."""
    with pytest.raises(ConfigError, match=key):
        from_mapping(document)


@pytest.mark.shows("pip-82/config-topic", "pip-82/config-enable", "pip-82/config-interval")
def test_pip_82s_keys_mean_ours(tmp_path: Path) -> None:
    """Each with a hint that has our name."""
    theirs = {
        "resourceUsagePublishTopicName": "non-persistent://pulsar/system/usage",
        "resourceUsagePublishIntervalInSecs": 2,
        "resourceUsagePublishToTopic": True,
    }
    config = from_mapping(GOOD | theirs)

    assert config.bus_topics == ("non-persistent://pulsar/system/usage",)
    assert config.report_interval_seconds == 2.0
    assert hints(GOOD | theirs) == (
        "resourceUsagePublishTopicName is bus_topics here",
        "resourceUsagePublishIntervalInSecs is report_interval_seconds here",
        "resourceUsagePublishToTopic is always on here: remove it",
    )
    assert hints(GOOD) == ()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"resourceUsagePublishToTopic": False}, "resourceUsagePublishToTopic: without reports"),
        (
            {"resourceUsagePublishTopicName": "persistent://a/b/c"},
            "bus_topics 'persistent://a/b/c': ",
        ),
        ({"resourceUsagePublishTopicName": 7}, "bus_topics: write a list of strings"),
        (
            {"resourceUsagePublishIntervalInSecs": 1, "report_interval_seconds": 1},
            "resourceUsagePublishIntervalInSecs: means the same as report_interval_seconds",
        ),
        ({"bus_topics": ["persistent://a/b/c"]}, "reports need no storage"),
        ({"complete_report_rounds": 0}, "complete_report_rounds is 0: use 1 to"),
        ({"report_change_ratio": 1.5}, "report_change_ratio is 1.5: use 0.0 to"),
        ({"bus_message_age_max_seconds": -1}, "bus_message_age_max_seconds is -1.0: use 0.0 to"),
        (
            {"topic_limit_mode": "soft", "topic_limit_check_seconds": 2},
            "topic_limit_check_seconds is 2.0: use 0.005 to",
        ),
        ({"topic_limit_check_seconds": 0.1}, "topic_limit_check_seconds: means nothing with"),
    ],
)
def test_keys_of_reports_and_checks_have_rules(keys: dict[str, Any], message: str) -> None:
    """Each refusal has the key."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        from_mapping(GOOD | keys)


@pytest.mark.shows("pip-82/every-n-rounds", "pip-82/change-threshold")
def test_rounds_and_threshold_of_reports_reach_the_core() -> None:
    """PIP-82's example is 10 %."""
    settings = from_mapping(
        GOOD | {"complete_report_rounds": 10, "report_change_ratio": 0.1}
    ).core_settings()

    assert (settings.complete_report_rounds, settings.change_permille) == (10, 100)
    assert settings.moved(1_000, 1_101)
    assert not settings.moved(1_000, 1_100)
    assert not settings.moved(1_000, 900)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:6650", ("127.0.0.1", 6650)),
        ("broker-1.pulsar:6650", ("broker-1.pulsar", 6650)),
        ("[::]:6650", ("::", 6650)),
        ("[fd00::7]:0", ("fd00::7", 0)),
        ("[::ffff:10.0.0.7]:65535", ("::ffff:10.0.0.7", 65535)),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, expected: tuple[str, int]) -> None:
    """An IPv6 address stands in brackets, as in a URL."""
    assert split_address("gate_listen", address) == expected


@pytest.mark.parametrize(
    "address",
    [
        "fd00::7:6650", "::1:6650", "[::1]", "[::1]6650", "[]:6650", "[broker]:6650", "[127.0.0.1]:6650",
        "[::1:6650", "::1]:6650", "[[::1]]:6650", "[fd00::g]:6650", "[::1]:66500", "[::1]: 6650",
        "[::1 ]:6650", "a:b:6650", ":6650",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_an_example(address: str) -> None:
    """An IPv6 address without brackets could be read in two ways."""
    with pytest.raises(ConfigError, match=r"write host:port, for example .* or \[fd00::7\]:6650"):
        split_address("gate_listen", address)

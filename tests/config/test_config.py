"""The configuration: everything is checked, and every refusal names the key and the fix."""

import math
import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from coordinator.backlog.rules.guard import Enforcement
from coordinator.config import Config, ConfigError, from_mapping, hints, load, split_address
from coordinator.core.model import Rates
from tests.config.nowhere import DOCUMENT

GOOD: dict[str, Any] = {**DOCUMENT}
NATIVE = {key: value for key, value in GOOD.items() if not key.startswith("gate_")} | {
    "enforcement_path": "native"
}


NO_PATHS = ("/", "/quota/", "//quota", "/a//b", "/.", "/a/..", "/./a", "/a\n", "/a\x00")
"""Paths that ZooKeeper, or our session with it, refuses."""


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
        ("broker_id", 7, "broker_id: write text in quotes, got 7"),
        ("partition_publish_rate_in_msgs", -2, "partition_publish_rate_in_msgs is -2: use -1 to"),
        ("subscribe_rate_period_seconds", 0, "subscribe_rate_period_seconds is 0: use 1 to 86400"),
        ("limit_mode", "soft", "limit_mode 'soft': use one of bucket, window"),
        ("limit_mode", 7, "limit_mode 7: use one of bucket, window"),
        (
            "enforcement_path",
            "both",
            "enforcement_path 'both': use one of gate, native, gate+native",
        ),
        ("cluster_group", "a/b", "cluster_group 'a/b': use letters"),
        ("backlog_check_seconds", 0.5, "backlog_check_seconds is 0.5: use 1.0 to 86400.0, or 0"),
        ("reconcile_seconds", 61, "reconcile_seconds is 61: use 0.5 to 60.0, or 0"),
        ("native_margin", -0.5, "native_margin is -0.5: use 0.0 to 1.0, or -1"),
        ("native_service_url", "http://a", "native_service_url 'http://a': it must start with"),
        ("backlog_enforced_namespaces", ["shop"], "backlog_enforced_namespaces 'shop': write"),
        ("backlog_dry_run_namespaces", [" a/b"], "backlog_dry_run_namespaces ' a/b': write"),
        ("gate_listen", "6650", "gate_listen '6650': write host:port"),
        ("gate_listen", "127.0.0.1:66500", "gate_listen '127.0.0.1:66500': write host:port"),
        ("gate_listen", "", "gate_listen: must not be empty"),
        ("gate_listen", "*:6652", "gate_listen '*:6652': write host:port"),
        ("gate_upstream", "a/b:6651", "gate_upstream 'a/b:6651': write host:port"),
        ("broker_web_url", "127.0.0.1:8080", "broker_web_url '127.0.0.1:8080': it must start"),
        ("broker_web_url", "http://::1:8080", "broker_web_url 'http://::1:8080': it must start"),
        (
            "broker_web_url",
            "http://",
            "broker_web_url 'http://': it must start with http:// or https://",
        ),
        ("broker_web_url", "http://a b:1", "broker_web_url 'http://a b:1': it must start"),
        ("zookeeper_servers", "a:1,b:1/p", "zookeeper_servers 'a:1,b:1/p': write no path here"),
        ("zookeeper_servers", "localhost", "zookeeper_servers 'localhost': write host:port"),
        ("bus_service_url", "http://x", "bus_service_url 'http://x': it must start"),
        *(
            ("bus_service_url", url, f"bus_service_url {url!r}: it must start with pulsar:// or")
            for url in (
                "pulsar://",
                "pulsar://a:x",
                "pulsar://a:66500",
                "pulsar://a,",
                "pulsar://,a",
            )
        ),
        *(
            ("bus_topics", [topic], f"bus_topics {topic!r}: write non-persistent://tenant/name")
            for topic in ("non-persistent://", "non-persistent://a", "non-persistent://a/b/c/d")
        ),
        ("bus_topics", [], "bus_topics []: name at least one topic"),
        ("bus_topics", "x", "bus_topics: write a list of strings, got 'x'"),
        ("bus_topics", ["usage"], "bus_topics 'usage': it must start"),
        ("bus_topics", ["persistent://a/b/c"], "bus_topics 'persistent://a/b/c': it must start"),
        ("bus_topics", [7], "bus_topics: write text in quotes, got 7"),
        ("bus_compression", "zip", "bus_compression 'zip'"),
        ("zookeeper_root", "quota", "zookeeper_root 'quota': it must look like /pulsar-quota"),
        *(("zookeeper_root", path, f"zookeeper_root {path!r}: it must look") for path in NO_PATHS),
        ("zookeeper_brokers_path", "/a/", "zookeeper_brokers_path '/a/': it must look like /load"),
        ("report_interval_seconds", 0, "report_interval_seconds is 0: use 0.1 to 300.0"),
        ("report_interval_seconds", "1", "report_interval_seconds: write a number, got '1'"),
        ("record_cluster", "", "record_cluster '': name the cluster"),
        ("admin_advertised_address", "b", "admin_advertised_address 'b': write host:port"),
        ("admin_hosts", ["a..b"], "admin_hosts 'a..b': write a name or an address"),
        *(
            ("admin_hosts", [host], f"admin_hosts {host!r}: write a name or an address")
            for host in ("a:99999", "[::x]:1", "[fe80::1%eth0]", "a.", "b\u00fc", "")
        ),
        ("gate_listen", "a..b:6652", "gate_listen 'a..b:6652': write host:port"),
        ("gate_listen", f"{'a' * 64}:1", f"gate_listen '{'a' * 64}:1': write host:port"),
        ("super_user_roles", [""], "super_user_roles '': a role must not be empty"),
        ("tenant_admins", {"shop": [""]}, "tenant_admins.shop '': a role must not be empty"),
        ("admin_pass_through", "no", "admin_pass_through: write true or false, got 'no'"),
        ("auth_role_claim", "", "auth_role_claim '': name a claim"),
        ("tenant_admins", {"shop": "x"}, "tenant_admins.shop: write a list of strings, got 'x'"),
        ("tenant_admins", ["shop"], "tenant_admins: write a table of lists of strings"),
        ("gate_proxy_roles", ["proxy", ""], "gate_proxy_roles '': a role must not be empty"),
        (
            "replication_peer_addresses",
            ["10.1.2.3/8"],
            "replication_peer_addresses '10.1.2.3/8': write",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_the_fix(
    key: str, value: object, message: str
) -> None:
    """The key is unknown, or the type or the form is another."""
    with pytest.raises(ConfigError) as refusal:
        from_mapping({**GOOD, key: value})

    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    "value", [True, "5", [5], math.nan, math.inf, -math.inf, 10**400, -(10**400)], ids=repr
)
def test_every_number_is_one_and_has_bounds(value: object) -> None:
    """The refusal tells them, or the type."""
    numbers = [key for key, kind in get_type_hints(Config).items() if kind in (int, float)]
    assert numbers
    for key in numbers:
        with pytest.raises(
            ConfigError, match=rf"^{key}( is .*: use .+ to |: write a (whole )?number, )"
        ):
            from_mapping({**GOOD, key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("zookeeper_root", "/a/.b/c..d"),
        ("zookeeper_brokers_path", "/pulsar/loadbalance/brokers"),
        ("bus_service_url", "pulsar+ssl://broker-1.example:6651,b_2/"),
        ("bus_topics", ["non-persistent://t-1/n.s/gr\u00f6\u00dfe-partition-0"]),
        ("admin_hosts", ["sidecar", "10.1.2.3:8087", "[fd00::7]", "[FD00::7]:65535", "a.b-c.d:1"]),
        ("gate_listen", "b\u00fccher.example.:6652"),
    ],
)
def test_every_form_takes_what_it_is_for(key: str, value: object) -> None:
    """In each of its spellings."""
    expected = tuple(value) if isinstance(value, list) else value
    assert getattr(from_mapping({**GOOD, key: value}), key) == expected


def test_all_faults_are_told_at_once() -> None:
    """A line for each; those between keys once each key by itself is in order."""
    wrong = {"broker_id": "", "limit_mode": "soft", "burst": 1}
    with pytest.raises(ConfigError) as refusal:
        from_mapping({key: GOOD[key] for key in GOOD if key != "gate_listen"} | wrong)
    lines = str(refusal.value).splitlines()
    assert [line.split()[0].rstrip(":") for line in lines] == [
        "gate_listen", "broker_id", "limit_mode", "burst",
    ]  # fmt: skip

    with pytest.raises(ConfigError, match=r"^bus_tls_ca_file: .*\nadmin_listen .*$"):
        from_mapping(GOOD | {"bus_tls_ca_file": "ca.pem", "admin_listen": "0.0.0.0:1"})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (NATIVE | {"gate_listen": "127.0.0.1:1"}, "gate_listen: means nothing"),
        (NATIVE | {"gate_upstream_tls": True}, "gate_upstream_tls: means nothing"),
        (NATIVE | {"broker_publish_rate_in_msgs": 5}, "broker_publish_rate_in_msgs: means nothing"),
        (NATIVE | {"subscribe_rate_per_consumer": 5}, "subscribe_rate_per_consumer: means nothing"),
        (NATIVE | {"delayed_group": "d"}, "delayed_group: means nothing"),
        (NATIVE | {"reconcile_seconds": 1.0}, "reconcile_seconds: means nothing"),
        (
            GOOD | {"native_margin": 0.1},
            "native_margin: means nothing with enforcement_path = gate",
        ),
        (GOOD | {"native_service_url": "pulsar://a:1"}, "native_service_url: means nothing"),
        (
            GOOD | {"gate_tls_listen": "0.0.0.0:6651"},
            "gate_tls_certificate_file, gate_tls_key_file: missing",
        ),
        (GOOD | {"gate_tls_client_ca_file": "a"}, "gate_tls_client_ca_file: means nothing without"),
        (
            GOOD | {"gate_upstream_tls_certificate_file": "c.pem"},
            "gate_upstream_tls_certificate_file: means nothing without gate_upstream_tls",
        ),
        (GOOD | {"bus_tls_ca_file": "ca.pem"}, "bus_tls_ca_file: means nothing"),
        (GOOD | {"zookeeper_sasl": True}, "zookeeper_sasl: means nothing"),
        (GOOD | {"zookeeper_tls_ca_file": "ca.pem"}, "zookeeper_tls_ca_file: means nothing"),
        (
            GOOD | {"zookeeper_tls": True, "zookeeper_tls_key_file": "key.pem"},
            "zookeeper_tls_certificate_file: missing; name all",
        ),
        (GOOD | {"admin_tls_key_file": "key.pem"}, "admin_tls_certificate_file: missing; name all"),
        (GOOD | {"admin_tls_client_ca_file": "ca"}, "admin_tls_client_ca_file: means nothing"),
        (
            GOOD | {"admin_listen": "0.0.0.0:8087"},
            "admin_listen '0.0.0.0:8087': others can reach it",
        ),
        (
            GOOD | {"admin_listen": "pulsar-1:8087"},
            "admin_listen 'pulsar-1:8087': others can reach",
        ),
        (GOOD | {"auth_secret_key_file": "secret"}, "super_user_roles: name at least one role"),
        (GOOD | {"super_user_roles": ["admin"]}, "super_user_roles: means nothing without auth_"),
        (GOOD | {"tenant_admins": {"shop": ["x"]}}, "tenant_admins: means nothing without auth_"),
        (
            GOOD | {"admin_connections_per_host": 513},
            "admin_connections_per_host is 513: use at most admin_connections_max, which is 512",
        ),
        (
            GOOD | {"held_bytes_max": 2**30},
            "held_bytes_max is 1073741824: use at most publish_buffer_bytes_max, which is 536870912",
        ),
        (
            GOOD | {"report_interval_seconds": 60},
            "hold_seconds is 30.0: with report_interval_seconds = 60.0 a silent peer is noticed after",
        ),
        (GOOD | {"hold_seconds": 7.9}, "hold_seconds is 7.9: with report_interval_seconds = 1.0 a"),
        (
            GOOD | {"topic_limit_check_seconds": 0.1},
            "topic_limit_check_seconds: means nothing with",
        ),
        (
            GOOD | {"condition_backlog_age_seconds": 60.0, "backlog_check_seconds": 0.0},
            "condition_backlog_age_seconds: means nothing without backlog_check_seconds",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(
    document: dict[str, Any], message: str
) -> None:
    """Rather than ignored; the refusal names the key and the fix."""
    with pytest.raises(ConfigError) as refusal:
        from_mapping(document)

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
        ("burst_seconds=fast", "burst_seconds: write a number"),
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
    with pytest.raises(ConfigError, match="means nothing without backlog_check_seconds"):
        from_mapping({**GOOD, **enforced, "backlog_check_seconds": 0})


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
    ],
)
def test_pip_82s_keys_have_the_rules_of_ours(keys: dict[str, Any], message: str) -> None:
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

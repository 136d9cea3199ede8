"""Everything a sidecar is told: one frozen value. Each key has a unit, a default and a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.backlog.rules.guard import Enforcement
from coordinator.core.model import NANOS_PER_SECOND, Dimension, Rates
from coordinator.core.settings import ConditionThresholds, CoreSettings

GATE, NATIVE, GATE_AND_NATIVE = ENFORCEMENT_PATHS = ("gate", "native", "gate+native")
"""The ways to hold traffic back."""

_BACKSTOP_PERMILLE = 200

UNLIMITED = -1
"""A rate of -1 is no limit, as in Pulsar."""

BROKER_RATES: Mapping[Dimension, str] = {
    Dimension.PUBLISH_MESSAGES: "broker_publish_rate_in_msgs",
    Dimension.PUBLISH_BYTES: "broker_publish_rate_in_bytes",
    Dimension.DISPATCH_MESSAGES: "broker_dispatch_rate_in_msgs",
    Dimension.DISPATCH_BYTES: "broker_dispatch_rate_in_bytes",
}
"""The keys of the limits of everything that passes the gate."""

PARTITION_RATES: Mapping[Dimension, str] = {
    dimension: name.replace("broker", "partition") for dimension, name in BROKER_RATES.items()
}
"""The keys of the limits of each partition."""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a sidecar is told.

    Args:
        broker_id: this broker's name among the sidecars; unique in the cluster.
        gate_listen: host:port where clients connect: the broker's advertised external listener.
        gate_upstream: host:port of the broker's own bind address for that listener.
        enforcement_path: who holds traffic back: gate is this sidecar's gate; native is the broker's own
            limiters, steered, with no gate and no gate_* keys (publish and dispatch limits of groups);
            gate+native is a gate, and the broker's limiter of publishing a little above it for what goes
            round the gate.
        native_margin: by how much the groups' records in Pulsar, and behind a gate the broker's own part,
            are above the limits, so that brokers leave gates alone: 0.2 is 20 %. -1 is 0.2 with
            gate+native and 0 with native; where both are used, set it on all sidecars alike.
        native_headroom: how much higher than the limits the groups' records in Pulsar may be, so that a
            limit can be raised by as much without writing the record, which would let each broker's
            clients publish all of it once: 1.0 is the double. A broker that starts lets the whole record
            pass for an interval, and once no sidecar writes any more, brokers that start anew keep to
            the records, no longer to the limits. Set it on all sidecars alike.
        native_service_url: in whose name the broker reports its resource usage; empty asks the broker.
        gate_tls_listen: host:port where clients connect with TLS, beside gate_listen; empty is nowhere.
        gate_tls_certificate_file: certificate chain of the gate (PEM), for the name that the broker
            advertises; it is looked at every 5 s and at SIGHUP, and replaced without a restart.
        gate_tls_key_file: its private key (PEM).
        gate_tls_client_ca_file: authorities that must have signed a client's certificate (PEM); empty
            demands none. The broker learns whose it is if gate_upstream_tls_certificate_file is set.
        gate_upstream_tls: whether the gate speaks TLS to the broker at gate_upstream.
        gate_upstream_tls_ca_file: authorities of the broker's certificate (PEM); empty are the system's.
        gate_upstream_tls_hostname: the name in the broker's certificate; empty is gate_upstream's host.
        gate_upstream_tls_certificate_file: certificate chain that the gate shows the broker (PEM). Its
            common name must be among the broker's proxyRoles: the gate then tells who a client with a
            certificate is (original_principal), and both roles need the permissions. Empty shows none.
        gate_upstream_tls_key_file: its private key (PEM).
        gate_upstream_proxy_protocol: version (1 or 2) of HAProxy's PROXY header that tells the broker the
            client's address, with haProxyProtocolEnabled=true there; 0 sends none.
        gate_listener_name: the broker's advertised listener whose address is gate_listen. Lookups
            through the admin API ask for it, whatever their callers ask for, so that answers name gates;
            empty leaves it to the callers, for brokers that have no gates. Of the addresses that brokers
            name to clients, the gate lets pass those of this listener, as the brokers register it in
            ZooKeeper, and replaces the others; empty lets all pass.
        gate_connections_max: clients that may be connected to this gate; at the bound the next one is
            accepted and closed at once. Each takes two file descriptors: where fewer are allowed, this
            bound is lower, and the log says so.
        gate_connections_per_host_max: the same for one host, which is an IPv4 address or the first 64
            bits of an IPv6 address. Half of all, since behind a proxy or a NAT many clients are one host.
        admin_listen: host:port of the admin API; anything but loopback needs keys for tokens.
        admin_advertised_address: host:port where others reach the admin API, shown beside each member;
            empty is admin_listen, with the machine's full name in place of 0.0.0.0.
        admin_hosts: names, or name:port, by which the admin API is asked, beside loopback and
            admin_advertised_address. Without keys for tokens any other Host is refused, since a page in a
            browser on this machine might have its own name point here; pages of a host named here may
            change things.
        admin_tls_certificate_file: certificate chain of the admin API (PEM); empty is plain HTTP.
        admin_tls_key_file: its private key (PEM).
        admin_tls_client_ca_file: authorities that must have signed the certificates of callers of the
            admin API (PEM), probes and Prometheus too; empty demands none. Roles come from tokens.
        admin_pass_through: whether requests for lookups, tenants and namespaces go to the broker, so
            that pulsar-admin's commands around groups work with a sidecar's address.
        admin_requests_per_second: requests that one host may send to the admin API, twice as many at
            once; what they ask for is looked up where limits are computed.
        admin_connections_max: connections to the admin API at once. At the bound a new one takes the
            place of the one that has waited longest without a request; where all have one, it gets 503.
        admin_connections_per_host: the same of one client address.
        admin_request_seconds: within which a TLS handshake must be done, and a request's head arrive, or
            the connection is closed. A body has as long, or is answered with 408; who takes less than
            64 KiB of an answer in that time is hung up on.
        admin_idle_seconds: how long a connection may wait for its next request.
        auth_secret_key_file: the secret that signs tokens (HS256), Pulsar's tokenSecretKey; empty has
            none. With neither this nor a public key there is no access control.
        auth_public_key_files: the public keys of the issuers of tokens (RS256 or ES256, DER or PEM),
            Pulsar's tokenPublicKey; several, so that keys can be changed.
        auth_role_claim: the claim that holds the role, Pulsar's tokenAuthClaim.
        super_user_roles: roles that may do everything, as Pulsar's superUserRoles.
        tenant_admins: tenant to the roles that may attach it, its namespaces and subscriptions to groups
            that allow it, detach them, and limit its topics.
        broker_web_url: the broker's admin REST, to see that it lives and which namespaces exist; for
            https the machine must trust its certificate.
        bus_service_url: pulsar:// URL for the report bus; the broker's internal listener, so that
            reports do not pass a gate. It has names in place of IPv6 addresses.
        bus_listener_name: advertised listener to ask lookups for; the internal one.
        bus_topics: reports are sent on each of them and duplicates dropped. Two topics with different
            owners survive the death of a broker without a gap.
        bus_message_age_max_seconds: a report that was sent longer ago is dropped, as PIP-82 drops it by
            publish time; 0 drops none, since numbers and arrival times tell old reports already. The time
            is in the signed report. No common clock is needed: of a sender's last 16 reports the quickest
            counts as not delayed at all. Read again at SIGHUP.
        bus_token_file: file with the token that shows the brokers who reports; empty sends none. Its role
            needs to produce and to consume on the bus topics, and nothing else.
        bus_tls_ca_file: authorities of the brokers' certificates (PEM), with pulsar+ssl://; empty are
            those of the package certifi.
        zookeeper_servers: host:port[,host:port...] of the ensemble.
        zookeeper_root: where our nodes live.
        zookeeper_brokers_path: where Pulsar's brokers register themselves, with their advertised
            listeners; behind a chroot of their metadataStoreUrl it is /CHROOT/loadbalance/brokers.
        zookeeper_credentials_file: a file with user:password for ZooKeeper, the same for all sidecars.
            Nodes are created for these alone; what is there already keeps its permissions. Empty shows
            none, and every client of ZooKeeper may change our nodes.
        zookeeper_sasl: whether they are shown by SASL (DIGEST-MD5, for an ensemble with a JAAS login), or
            by ZooKeeper's digest scheme. Needs the extra sasl of the package.
        zookeeper_tls: whether the servers are spoken to with TLS; zookeeper_servers are then their
            secureClientPort, by the names that their certificates have.
        zookeeper_tls_ca_file: authorities of the servers' certificates (PEM); empty are the system's.
        zookeeper_tls_certificate_file: certificate chain that is shown the servers (PEM), which demand
            one unless their ssl.clientAuth is none or want. Empty shows none.
        zookeeper_tls_key_file: its private key (PEM).
        zookeeper_session_timeout_seconds: how soon a dead sidecar's share is free. Shorter than a pause
            of the process (garbage collection, suspended machine) costs needless re-joins.
        report_interval_seconds: length of a round; see CoreSettings.round_ns.
        complete_report_rounds: rounds from one report that lists every group to the next (PIP-82: "once
            in N cycles").
        report_change_ratio: a group is reported between them when a rate changed by more than this;
            PIP-82's example is 0.1.
        burst_seconds: how much of a local limit may be saved up. Small, since the bursts of all brokers
            add up.
        limit_mode: how limits of groups and of the broker are enforced: bucket lets messages pass evenly;
            window gives each second the whole rate at once, and what is beyond it waits for the next
            second, as a managed Pulsar does.
        topic_limit_mode: the same for limits of topics; soft is that service's mode for partitions:
            looked at every 50 ms, and when it is exceeded nothing passes until the second is over.
        topic_limit_check_seconds: how often that is, in mode soft.
        cluster_group: the resource group that all traffic counts against, beside its own groups; empty is
            none. /quota/v1/cluster/specification sets its limits. It must be the same for all sidecars.
        delayed_group: the resource group that delayed messages, those with deliver_at_time set, count
            against beside their other groups; nothing else does. Empty is none, and they are not
            looked for. It must be the same for all sidecars.
        unknown_topics: what becomes of topics whose names no known Pulsar accepts: refuse answers their
            clients with an error; pass lets them through, counts them and is the condition
            UnknownTopics, as no group of a tenant or namespace can limit them.
        held_bytes_max: per client connection, bytes of held publishes, large ones that are not complete
            included; at the bound the client is not read any more until half of it is free. As much again
            of messages to its consumers; one that would exceed it is closed, and subscribes again.
        publish_buffer_bytes_max: the same for all connections together, as a sidecar's memory must not
            grow with the number of throttled clients; beside it, what has arrived of large messages
            that are not complete is at most half as much, or one such message that is larger; messages
            to consumers are at most a quarter as much.
        pending_publish_requests_max: per client connection, publishes that wait for the broker's receipt;
            0 leaves that to the broker's own maxPendingPublishRequestsPerConnection.
        gate_basic_roles: whether the brokers ask users of method basic for their passwords; then a user's
            name is the client's role. Roles of tokens are those of the keys above.
        gate_proxy_roles: roles of Pulsar's proxies whose word the gate takes for who their client is, as
            brokers do that of their proxyRoles.
        replication_peer_addresses: addresses or networks (CIDR) of other clusters' brokers that
            replicate into this one through the gate. Their producers of geo-replication are limited only
            by the group of their cluster; they are counted apart and logged. The default names none.
        replication_peer_roles: the same by the common name of the certificate that they show to the gate,
            which takes gate_tls_client_ca_file.
        replication_producer_prefix: what the names of those producers begin with, the replicatorPrefix of
            the other clusters' brokers.
        broker_publish_rate_in_msgs: limit of everything that is published through this gate, beside the
            limits of groups and topics, in messages per second; -1 is no limit, 0 lets nothing pass.
            This and the next nine are read again at SIGHUP.
        broker_publish_rate_in_bytes: the same in bytes per second.
        broker_dispatch_rate_in_msgs: of everything that is sent to consumers, in messages per second.
        broker_dispatch_rate_in_bytes: the same in bytes per second.
        partition_publish_rate_in_msgs: limit of every partition of every topic, each for itself, in
            messages per second; -1 is no limit.
        partition_publish_rate_in_bytes: the same in bytes per second.
        partition_dispatch_rate_in_msgs: of what is sent to a partition's consumers.
        partition_dispatch_rate_in_bytes: the same in bytes per second.
        subscribe_rate_per_consumer: how often one consumer (host, name and id) may subscribe per period;
            -1 is no limit.
        subscribe_rate_period_seconds: that period.
        hold_seconds: how long limits are held when the bus is silent; longer than the gap of about
            12 s when a bus topic's owner dies, and at least 8 times report_interval_seconds, so that
            a silent peer has been noticed before.
        drain_timeout_seconds: how long a stopping gate waits for outstanding receipts.
        record_dir: where reports, decisions and traffic are recorded for the Spark jobs: a directory or
            a URL (s3://, gs://, hdfs://). Empty records nothing, for a disk must not fill unasked.
        record_cluster: the cluster's name in what is recorded, so that places are not mixed up.
        record_file_seconds: age at which rows become a file, however few: a crash loses no more. 50,000
            of a table are one at once.
        record_retention_days: age at which this sidecar's own files are deleted.
        record_bytes_max: what its files may take; the oldest are deleted first.
        condition_backlog_age_seconds: no message may wait longer for its acknowledgement, whatever the
            quota of its topic; 0 is no bound. Looked at every backlog_check_seconds.
        check_invariants: check after every event that the core's books, raises, limits and usage map
            agree, and report a contradiction as a failed task (status, /quota/v1/health). For tests of
            the sidecar itself: it costs more than all decisions when there are many groups.
        broker_token_file: file with the token that the sidecar's own requests to broker_web_url bear;
            empty sends none. The backlog monitor needs a super-user's, as `pulsar-admin broker-stats`
            does.
        backlog_check_seconds: how often the backlogs of the broker's topics are looked at, Pulsar's
            backlogQuotaCheckIntervalInSeconds; 0 is never.
        backlog_age: precise reads the oldest message, once for each place where the oldest subscription
            stands; estimated reads none and takes it to be as old as the end of its ledger, Pulsar's
            preciseTimeBasedBacklogQuotaCheck=false.
        backlog_topic_metrics: whether metrics of backlogs have a series per topic, Pulsar's
            exposeTopicLevelMetricsInPrometheus; without, evictions are told by namespace and no ages.
        backlog_enforced_namespaces: tenant/namespace where exceeded quotas are acted on within seconds:
            the gate holds or refuses publishes, or the backlog is evicted, as the quota's policy says.
            This and the next two are read again at SIGHUP. It must be the same for all sidecars.
        backlog_dry_run_namespaces: tenant/namespace where that is only written down.
        backlog_enforcement_seconds: how often their topics are looked at.
        reconcile_seconds: how often, at most, the broker's counters are compared with the gate's, which
            shows the traffic that goes round the gate. 0 is never.
        reconcile_part: the part of the time that such comparisons may take; with thousands of topics they
            are further apart, at most 30 s. It bounds their processor time at broker and sidecar; a
            smaller part shows later what goes round the gate.
        inventory_seconds: how often the broker is asked for its tenants, namespaces and resource groups,
            to tell of attachments to what no longer exists, and of groups that were made at a broker. 0
            is never.
        log_level: debug, info, warning or error.
    """

    broker_id: str
    gate_listen: str
    gate_upstream: str
    broker_web_url: str
    bus_service_url: str
    zookeeper_servers: str
    enforcement_path: str = "gate"
    native_margin: float = -1.0
    native_headroom: float = 1.0
    native_service_url: str = ""
    gate_tls_listen: str = ""
    gate_tls_certificate_file: str = ""
    gate_tls_key_file: str = ""
    gate_tls_client_ca_file: str = ""
    gate_upstream_tls: bool = False
    gate_upstream_tls_ca_file: str = ""
    gate_upstream_tls_hostname: str = ""
    gate_upstream_tls_certificate_file: str = ""
    gate_upstream_tls_key_file: str = ""
    gate_upstream_proxy_protocol: int = 0
    gate_listener_name: str = "external"
    gate_connections_max: int = 10_000
    gate_connections_per_host_max: int = 5_000
    admin_listen: str = "127.0.0.1:8087"
    admin_advertised_address: str = ""
    admin_hosts: tuple[str, ...] = ()
    admin_tls_certificate_file: str = ""
    admin_tls_key_file: str = ""
    admin_tls_client_ca_file: str = ""
    admin_pass_through: bool = True
    admin_requests_per_second: int = 500
    admin_connections_max: int = 512
    admin_connections_per_host: int = 128
    admin_request_seconds: float = 10.0
    admin_idle_seconds: float = 5.0
    auth_secret_key_file: str = ""
    auth_public_key_files: tuple[str, ...] = ()
    auth_role_claim: str = "sub"
    super_user_roles: tuple[str, ...] = ()
    tenant_admins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bus_listener_name: str = "internal"
    bus_topics: tuple[str, ...] = field(
        default=("non-persistent://pulsar/system/quota-usage",),
    )
    bus_message_age_max_seconds: float = 0.0
    bus_token_file: str = ""
    bus_tls_ca_file: str = ""
    zookeeper_root: str = "/pulsar-quota"
    zookeeper_brokers_path: str = "/loadbalance/brokers"
    zookeeper_credentials_file: str = ""
    zookeeper_sasl: bool = False
    zookeeper_tls: bool = False
    zookeeper_tls_ca_file: str = ""
    zookeeper_tls_certificate_file: str = ""
    zookeeper_tls_key_file: str = ""
    zookeeper_session_timeout_seconds: float = 4.0
    report_interval_seconds: float = 1.0
    complete_report_rounds: int = 300
    report_change_ratio: float = 0.05
    burst_seconds: float = 0.05
    limit_mode: str = "bucket"
    topic_limit_mode: str = "bucket"
    topic_limit_check_seconds: float = 0.05
    cluster_group: str = ""
    delayed_group: str = ""
    unknown_topics: str = "refuse"
    held_bytes_max: int = 8 * 1024 * 1024
    publish_buffer_bytes_max: int = 512 * 1024 * 1024
    pending_publish_requests_max: int = 0
    gate_basic_roles: bool = False
    gate_proxy_roles: tuple[str, ...] = ()
    replication_peer_addresses: tuple[str, ...] = ()
    replication_peer_roles: tuple[str, ...] = ()
    replication_producer_prefix: str = "pulsar.repl"
    broker_publish_rate_in_msgs: int = -1
    broker_publish_rate_in_bytes: int = -1
    broker_dispatch_rate_in_msgs: int = -1
    broker_dispatch_rate_in_bytes: int = -1
    partition_publish_rate_in_msgs: int = -1
    partition_publish_rate_in_bytes: int = -1
    partition_dispatch_rate_in_msgs: int = -1
    partition_dispatch_rate_in_bytes: int = -1
    subscribe_rate_per_consumer: int = -1
    subscribe_rate_period_seconds: int = 30
    hold_seconds: float = 30.0
    drain_timeout_seconds: float = 10.0
    record_dir: str = ""
    record_cluster: str = "pulsar"
    record_file_seconds: float = 60.0
    record_retention_days: float = 14.0
    record_bytes_max: int = 10 * 1024**3
    condition_backlog_age_seconds: float = 0.0
    check_invariants: bool = False
    broker_token_file: str = ""
    backlog_check_seconds: float = 60.0
    backlog_age: str = "precise"
    backlog_topic_metrics: bool = True
    backlog_enforced_namespaces: tuple[str, ...] = ()
    backlog_dry_run_namespaces: tuple[str, ...] = ()
    backlog_enforcement_seconds: float = 5.0
    reconcile_seconds: float = 2.0
    reconcile_part: float = 0.1
    inventory_seconds: float = 60.0
    log_level: str = "info"

    @property
    def has_gate(self) -> bool:
        """Whether a gate stands before the broker."""
        return self.enforcement_path != NATIVE

    @property
    def has_token_keys(self) -> bool:
        """Whether tokens can be checked."""
        return bool(self.auth_secret_key_file or self.auth_public_key_files)

    @property
    def proves_roles(self) -> bool:
        """Whether clients can prove a role to the gate."""
        return self.has_token_keys or self.gate_basic_roles or bool(self.gate_tls_client_ca_file)

    @property
    def is_native(self) -> bool:
        """Whether the broker's own limiter is steered."""
        return self.enforcement_path != GATE

    @property
    def reconciles(self) -> bool:
        """Whether the broker's counters are compared with the gate's."""
        return self.has_gate and self.reconcile_seconds > 0

    @property
    def native_margin_permille(self) -> int:
        """By how much records in Pulsar are above the limits."""
        if self.native_margin >= 0:
            return round(self.native_margin * 1000)
        return _BACKSTOP_PERMILLE if self.has_gate else 0

    @property
    def broker_limits(self) -> Rates:
        """The limits of everything that passes the gate."""
        return Rates.from_mapping(
            {dimension: _limit(getattr(self, name)) for dimension, name in BROKER_RATES.items()}
        )

    @property
    def partition_limits(self) -> Rates:
        """The limits of each partition."""
        return Rates.from_mapping(
            {dimension: _limit(getattr(self, name)) for dimension, name in PARTITION_RATES.items()}
        )

    @property
    def subscribe_rate(self) -> int | None:
        """Subscriptions of one consumer per period; None is no limit."""
        return _limit(self.subscribe_rate_per_consumer)

    @property
    def backlog_enforcement(self) -> Mapping[str, Enforcement]:
        """The actions wanted on exceeded backlog quotas, by tenant/namespace."""
        dry = dict.fromkeys(self.backlog_dry_run_namespaces, Enforcement.DRY_RUN)
        return dry | dict.fromkeys(self.backlog_enforced_namespaces, Enforcement.ENFORCE)

    def core_settings(self) -> CoreSettings:
        """The part that the core needs, in its units."""
        return CoreSettings(
            broker=self.broker_id,
            round_ns=_nanos(self.report_interval_seconds),
            complete_report_rounds=self.complete_report_rounds,
            change_permille=round(self.report_change_ratio * 1000),
            burst_ns=_nanos(self.burst_seconds),
            hold_ns=_nanos(self.hold_seconds),
            session_timeout_ns=_nanos(self.zookeeper_session_timeout_seconds),
            thresholds=ConditionThresholds(
                backlog_age_s=self.condition_backlog_age_seconds or None
            ),
        )


def _limit(rate: int) -> int | None:
    return None if rate == UNLIMITED else rate


def _nanos(seconds: float) -> int:
    return round(seconds * NANOS_PER_SECOND)

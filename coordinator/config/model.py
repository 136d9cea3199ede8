"""Everything a sidecar is told: one frozen value. Each key has a unit, a default and a reason.

A field says all of its key: the type, the values that are allowed, the default and, below it, the text of
the reference. Rules between keys are in `rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from coordinator.backlog.rules.guard import Enforcement
from coordinator.config.forms import (
    Address,
    Addresses,
    AddressOrNone,
    BrokerId,
    BusTopic,
    BusUrl,
    GroupOrNone,
    Host,
    ListenerOrNone,
    Namespace,
    Network,
    Role,
    ValueForm,
    between,
    node_path,
    or_empty,
    url,
)
from coordinator.core.answer import UNLIMITED, from_wire
from coordinator.core.model import MAX_COUNT, NANOS_PER_SECOND, Rates
from coordinator.core.settings import ConditionThresholds, CoreSettings
from coordinator.core.topics import RESOURCE_USAGE_TOPIC

GATE: Final = "gate"
NATIVE: Final = "native"

RateOrNone = Annotated[int, between(UNLIMITED, MAX_COUNT)]

_BACKSTOP_PERMILLE = 200


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a sidecar is told."""

    broker_id: BrokerId
    """this broker's name among the sidecars; unique in the cluster."""
    gate_listen: AddressOrNone
    """host:port where clients connect: the broker's advertised external listener."""
    gate_upstream: AddressOrNone
    """host:port of the broker's own bind address for that listener."""
    broker_web_url: Annotated[str, url("http://", "https://")]
    """the broker's admin REST, to see that it lives and which namespaces exist; for https the machine
    must trust its certificate."""
    bus_service_url: BusUrl
    """pulsar:// URL for the report bus; the broker's internal listener, so that reports do not pass a
    gate. It has names in place of IPv6 addresses."""
    zookeeper_servers: Addresses
    """host:port[,host:port...] of the ensemble."""
    enforcement_path: Literal["gate", "native", "gate+native"] = "gate"
    """who holds traffic back: gate is this sidecar's gate; native is the broker's own limiters, steered,
    with no gate and no gate_* keys (publish and dispatch limits of groups); gate+native is a gate, and
    the broker's limiter of publishing a little above it for what goes round the gate."""
    native_margin: Annotated[float, between(0.0, 1.0, beside=-1)] = -1.0
    """by how much the groups' records in Pulsar, and behind a gate the broker's own part, are above the
    limits, so that brokers leave gates alone: 0.2 is 20 %. -1 is 0.2 with gate+native and 0 with native;
    where both are used, set it on all sidecars alike."""
    native_headroom: Annotated[float, between(0.0, 10.0)] = 1.0
    """how much higher than the limits the groups' records in Pulsar may be, so that a limit can be raised
    by as much without writing the record, which would let each broker's clients publish all of it once:
    1.0 is the double. A broker that starts lets the whole record pass for an interval, and once no
    sidecar writes any more, brokers that start anew keep to the records, no longer to the limits. Set it
    on all sidecars alike."""
    native_service_url: Annotated[str, or_empty(url("pulsar://"))] = ""
    """in whose name the broker reports its resource usage; empty asks the broker."""
    gate_tls_listen: AddressOrNone = ""
    """host:port where clients connect with TLS, beside gate_listen; empty is nowhere."""
    gate_tls_certificate_file: str = ""
    """certificate chain of the gate (PEM), for the name that the broker advertises; it is looked at every
    5 s and at SIGHUP, and replaced without a restart."""
    gate_tls_key_file: str = ""
    """its private key (PEM)."""
    gate_tls_client_ca_file: str = ""
    """authorities that must have signed a client's certificate (PEM); empty demands none. The broker
    learns whose it is if gate_upstream_tls_certificate_file is set."""
    gate_upstream_tls: bool = False
    """whether the gate speaks TLS to the broker at gate_upstream."""
    gate_upstream_tls_ca_file: str = ""
    """authorities of the broker's certificate (PEM); empty are the system's."""
    gate_upstream_tls_hostname: str = ""
    """the name in the broker's certificate; empty is gate_upstream's host."""
    gate_upstream_tls_certificate_file: str = ""
    """certificate chain that the gate shows the broker (PEM). Its common name must be among the broker's
    proxyRoles: the gate then tells who a client with a certificate is (original_principal), and both
    roles need the permissions. Empty shows none."""
    gate_upstream_tls_key_file: str = ""
    """its private key (PEM)."""
    gate_upstream_proxy_protocol: Annotated[int, between(0, 2)] = 0
    """version (1 or 2) of HAProxy's PROXY header that tells the broker the client's address, with
    haProxyProtocolEnabled=true there; 0 sends none."""
    gate_listener_name: ListenerOrNone = "external"
    """the broker's advertised listener whose address is gate_listen. Lookups through the admin API ask
    for it, whatever their callers ask for, so that answers name gates; empty leaves it to the callers,
    for brokers that have no gates. Of the addresses that brokers name to clients, the gate lets pass
    those of this listener, as the brokers register it in ZooKeeper, and replaces the others; empty lets
    all pass."""
    gate_connections_max: Annotated[int, between(1, 1_000_000)] = 10_000
    """clients that may be connected to this gate; at the bound the next one is accepted and closed at
    once. Each takes two file descriptors: where fewer are allowed, this bound is lower, and the log says
    so."""
    gate_connections_per_host_max: Annotated[int, between(1, 1_000_000)] = 5_000
    """clients of one host that may be connected to this gate; a host is an IPv4 address or the first 64
    bits of an IPv6 address. Half of all, since behind a proxy or a NAT many clients are one host."""
    admin_listen: Address = "127.0.0.1:8087"
    """host:port of the admin API; anything but loopback needs keys for tokens."""
    admin_advertised_address: AddressOrNone = ""
    """host:port where others reach the admin API, shown beside each member; empty is admin_listen, with
    the machine's full name in place of 0.0.0.0."""
    admin_hosts: tuple[Host, ...] = ()
    """names, or name:port, by which the admin API is asked, beside loopback and admin_advertised_address.
    Without keys for tokens any other Host is refused, since a page in a browser on this machine might
    have its own name point here; pages of a host named here may change things."""
    admin_tls_certificate_file: str = ""
    """certificate chain of the admin API (PEM); empty is plain HTTP."""
    admin_tls_key_file: str = ""
    """its private key (PEM)."""
    admin_tls_client_ca_file: str = ""
    """authorities that must have signed the certificates of callers of the admin API (PEM), probes and
    Prometheus too; empty demands none. Roles come from tokens."""
    admin_pass_through: bool = True
    """whether requests for lookups, tenants and namespaces go to the broker, so that pulsar-admin's
    commands around groups work with a sidecar's address."""
    admin_requests_per_second: Annotated[int, between(1, 100_000)] = 500
    """requests that one host may send to the admin API, twice as many at once; what they ask for is
    looked up where limits are computed."""
    admin_connections_max: Annotated[int, between(8, 65_536)] = 512
    """connections to the admin API at once. At the bound a new one takes the place of the one that has
    waited longest without a request; where all have one, it gets 503."""
    admin_connections_per_host: Annotated[int, between(4, 65_536)] = 128
    """connections of one client address to the admin API at once."""
    admin_request_seconds: Annotated[float, between(1.0, 300.0)] = 10.0
    """time within which a TLS handshake must be done, and a request's head arrive, or the connection is
    closed. A body has as long, or is answered with 408; who takes less than 64 KiB of an answer in that
    time is hung up on."""
    admin_idle_seconds: Annotated[float, between(1.0, 3600.0)] = 5.0
    """how long a connection may wait for its next request."""
    auth_secret_key_file: str = ""
    """the secret that signs tokens (HS256), Pulsar's tokenSecretKey; empty has none. With neither this
    nor a public key there is no access control."""
    auth_public_key_files: tuple[str, ...] = ()
    """the public keys of the issuers of tokens (RS256 or ES256, DER or PEM), Pulsar's tokenPublicKey;
    several, so that keys can be changed."""
    auth_role_claim: Annotated[str, ValueForm(bool, "name a claim, such as sub")] = "sub"
    """the claim that holds the role, Pulsar's tokenAuthClaim."""
    super_user_roles: tuple[Role, ...] = ()
    """roles that may do everything, as Pulsar's superUserRoles."""
    tenant_admins: Mapping[str, tuple[Role, ...]] = field(default_factory=dict)
    """tenant to the roles that may attach it, its namespaces and subscriptions to groups that allow it,
    detach them, and limit its topics."""
    bus_listener_name: str = "internal"
    """advertised listener to ask lookups for; the internal one."""
    bus_topics: Annotated[tuple[BusTopic, ...], ValueForm(bool, "name at least one topic")] = (
        "non-persistent://pulsar/system/quota-usage",
    )
    """reports are sent on each of them and duplicates dropped. Two topics with different owners survive
    the death of a broker without a gap."""
    bus_compression: Literal["none", "lz4"] = "none"
    """what reports are compressed with; every sidecar reads both. lz4 halves reports of many groups, and
    saves nothing for a few."""
    bus_message_age_max_seconds: Annotated[float, between(0.0, 3600.0)] = 0.0
    """a report that was sent longer ago is dropped, as PIP-82 drops it by publish time; 0 drops none,
    since numbers and arrival times tell old reports already. The time is in the signed report. No common
    clock is needed: of a sender's last 16 reports the quickest counts as not delayed at all. Read again
    at SIGHUP."""
    bus_token_file: str = ""
    """file with the token that shows the brokers who reports; empty sends none. Its role needs to produce
    and to consume on the bus topics, and nothing else."""
    bus_tls_ca_file: str = ""
    """authorities of the brokers' certificates (PEM), with pulsar+ssl://; empty are those of the package
    certifi."""
    zookeeper_root: Annotated[str, node_path("/pulsar-quota")] = "/pulsar-quota"
    """where our nodes live."""
    zookeeper_brokers_path: Annotated[str, node_path("/loadbalance/brokers")] = (
        "/loadbalance/brokers"
    )
    """where Pulsar's brokers register themselves, with their advertised listeners; behind a chroot of
    their metadataStoreUrl it is /CHROOT/loadbalance/brokers."""
    zookeeper_credentials_file: str = ""
    """a file with user:password for ZooKeeper, the same for all sidecars. Nodes are created for these
    alone; what is there already keeps its permissions. Empty shows none, and every client of ZooKeeper
    may change our nodes."""
    zookeeper_sasl: bool = False
    """whether zookeeper_credentials_file is shown by SASL (DIGEST-MD5, for an ensemble with a JAAS
    login), or by ZooKeeper's digest scheme. Needs the extra sasl of the package."""
    zookeeper_tls: bool = False
    """whether the servers are spoken to with TLS; zookeeper_servers are then their secureClientPort, by
    the names that their certificates have."""
    zookeeper_tls_ca_file: str = ""
    """authorities of the servers' certificates (PEM); empty are the system's."""
    zookeeper_tls_certificate_file: str = ""
    """certificate chain that is shown the servers (PEM), which demand one unless their ssl.clientAuth is
    none or want. Empty shows none."""
    zookeeper_tls_key_file: str = ""
    """its private key (PEM)."""
    zookeeper_session_timeout_seconds: Annotated[float, between(1.0, 40.0)] = 4.0
    """how soon a dead sidecar's share is free. Shorter than a pause of the process (garbage collection,
    suspended machine) costs needless re-joins."""
    report_interval_seconds: Annotated[float, between(0.1, 300.0)] = 1.0
    """length of a round: how often a sidecar reports its broker's traffic and computes limits anew.
    Longer rounds cost less, and shares follow later."""
    complete_report_rounds: Annotated[int, between(1, 100_000)] = 300
    """rounds from one report that lists every group to the next (PIP-82: "once in N cycles")."""
    report_change_ratio: Annotated[float, between(0.0, 1.0)] = 0.05
    """between two complete reports a group is reported when a rate changed by more than this part of it;
    PIP-82's example is 0.1."""
    burst_seconds: Annotated[float, between(0.001, 10.0)] = 0.05
    """how much of a local limit may be saved up. Small, since the bursts of all brokers add up."""
    limit_mode: Literal["bucket", "window"] = "bucket"
    """how limits of groups and of the broker are enforced: bucket lets messages pass evenly; window gives
    each second the whole rate at once, and what is beyond it waits for the next second, as a managed
    Pulsar does."""
    topic_limit_mode: Literal["bucket", "window", "soft"] = "bucket"
    """how limits of topics and partitions are enforced: bucket and window as in limit_mode; soft looks
    every topic_limit_check_seconds, and when a limit is exceeded nothing passes until the second is over,
    as a managed Pulsar limits partitions."""
    topic_limit_check_seconds: Annotated[float, between(0.005, 1.0)] = 0.05
    """how often limits of topics and partitions are looked at with topic_limit_mode = "soft"."""
    cluster_group: GroupOrNone = ""
    """the resource group that all traffic counts against, beside its own groups; empty is none.
    /quota/v1/cluster/specification sets its limits. It must be the same for all sidecars."""
    delayed_group: GroupOrNone = ""
    """the resource group that delayed messages, those with deliver_at_time set, count against beside
    their other groups; nothing else does. Empty is none, and they are not looked for. It must be the same
    for all sidecars."""
    unknown_topics: Literal["refuse", "pass"] = "refuse"
    """what becomes of topics whose names no known Pulsar accepts: refuse answers their clients with an
    error; pass lets them through, counts them and is the condition UnknownTopics, as no group of a tenant
    or namespace can limit them."""
    held_bytes_max: Annotated[int, between(6 * 1024 * 1024, 2**31)] = 8 * 1024 * 1024
    """per client connection, bytes of held publishes, large ones that are not complete included; at the
    bound the client is not read any more until half of it is free. As much again of messages to its
    consumers; one that would exceed it is closed, and subscribes again."""
    publish_buffer_bytes_max: Annotated[int, between(6 * 1024 * 1024, 2**40)] = 512 * 1024 * 1024
    """bytes of held publishes of all connections together, as a sidecar's memory must not grow with the
    number of throttled clients. What waits for one limit, on however many connections, takes at most as
    much of it as it leaves free: half of it alone, a third each of two. Messages to consumers have a
    quarter of that beside it by the same rule, and another quarter for the first small one of each
    connection. What has arrived of large commands that are not complete is at most half as much, or one
    that is larger."""
    pending_publish_requests_max: Annotated[int, between(0, 1_000_000)] = 0
    """per client connection, publishes that wait for the broker's receipt; 0 leaves that to the broker's
    own maxPendingPublishRequestsPerConnection."""
    gate_basic_roles: bool = False
    """whether the brokers ask users of method basic for their passwords; then a user's name is the
    client's role. Roles of tokens are those of the keys above."""
    gate_proxy_roles: tuple[Role, ...] = ()
    """roles of Pulsar's proxies whose word the gate takes for who their client is, as brokers do that of
    their proxyRoles."""
    replication_peer_addresses: tuple[Network, ...] = ()
    """addresses or networks (CIDR) of other clusters' brokers that replicate into this one through the
    gate. Their producers of geo-replication are limited only by the group of their cluster; they are
    counted apart and logged. The default names none."""
    replication_peer_roles: tuple[Role, ...] = ()
    """other clusters' brokers that replicate into this one, by the common name of the certificate that
    they show to the gate, which takes gate_tls_client_ca_file."""
    replication_producer_prefix: Annotated[
        str, ValueForm(bool, "use the brokers' replicatorPrefix")
    ] = "pulsar.repl"
    """what the names of producers of geo-replication begin with, the replicatorPrefix of the other
    clusters' brokers."""
    broker_publish_rate_in_msgs: RateOrNone = -1
    """limit of everything that is published through this gate, beside the limits of groups and topics, in
    messages per second; -1 is no limit, 0 lets nothing pass. This and the next nine are read again at
    SIGHUP."""
    broker_publish_rate_in_bytes: RateOrNone = -1
    """the same in bytes per second."""
    broker_dispatch_rate_in_msgs: RateOrNone = -1
    """of everything that is sent to consumers, in messages per second."""
    broker_dispatch_rate_in_bytes: RateOrNone = -1
    """the same in bytes per second."""
    partition_publish_rate_in_msgs: RateOrNone = -1
    """limit of every partition of every topic, each for itself, in messages per second; -1 is no
    limit."""
    partition_publish_rate_in_bytes: RateOrNone = -1
    """the same in bytes per second."""
    partition_dispatch_rate_in_msgs: RateOrNone = -1
    """of what is sent to a partition's consumers."""
    partition_dispatch_rate_in_bytes: RateOrNone = -1
    """the same in bytes per second."""
    subscribe_rate_per_consumer: Annotated[int, between(UNLIMITED, 1_000_000)] = -1
    """how often one consumer (host, name and id) may subscribe per period; -1 is no limit."""
    subscribe_rate_period_seconds: Annotated[int, between(1, 86_400)] = 30
    """the period of subscribe_rate_per_consumer."""
    hold_seconds: Annotated[float, between(1.0, 3600.0)] = 30.0
    """how long limits are held when the bus is silent; longer than the gap of about 12 s when a bus
    topic's owner dies, and at least 8 times report_interval_seconds, so that a silent peer has been
    noticed before."""
    drain_timeout_seconds: Annotated[float, between(0.0, 300.0)] = 10.0
    """how long a stopping gate waits for outstanding receipts."""
    record_dir: str = ""
    """where reports, decisions and traffic are recorded for the Spark jobs: a directory or a URL (s3://,
    gs://, hdfs://). Empty records nothing, for a disk must not fill unasked."""
    record_cluster: Annotated[str, ValueForm(bool, "name the cluster")] = "pulsar"
    """the cluster's name in what is recorded, so that places are not mixed up."""
    record_file_seconds: Annotated[float, between(0.5, 3600.0)] = 60.0
    """age at which rows become a file, however few: a crash loses no more. 50,000 of a table are one at
    once."""
    record_retention_days: Annotated[float, between(0.01, 3650.0)] = 14.0
    """age at which this sidecar's own files are deleted."""
    record_bytes_max: Annotated[int, between(1024**2, 2**50)] = 10 * 1024**3
    """what its files may take; the oldest are deleted first."""
    condition_backlog_age_seconds: Annotated[float, between(0.0, 10.0**9)] = 0.0
    """no message may wait longer for its acknowledgement, whatever the quota of its topic; 0 is no bound.
    Looked at every backlog_check_seconds."""
    check_invariants: bool = False
    """check after every event that the core's books, raises, limits and usage map agree, and report a
    contradiction as a failed task (status, /quota/v1/health). For tests of the sidecar itself: it costs
    more than all decisions when there are many groups."""
    broker_token_file: str = ""
    """file with the token that the sidecar's own requests to broker_web_url bear; empty sends none. The
    backlog monitor needs a super-user's, as `pulsar-admin broker-stats` does."""
    backlog_check_seconds: Annotated[float, between(1.0, 86_400.0, beside=0)] = 60.0
    """how often the backlogs of the broker's topics are looked at, Pulsar's
    backlogQuotaCheckIntervalInSeconds; 0 is never."""
    backlog_age: Literal["precise", "estimated"] = "precise"
    """precise reads the oldest message, once for each place where the oldest subscription stands;
    estimated reads none and takes it to be as old as the end of its ledger, Pulsar's
    preciseTimeBasedBacklogQuotaCheck=false."""
    backlog_topic_metrics: bool = True
    """whether metrics of backlogs have a series per topic, Pulsar's exposeTopicLevelMetricsInPrometheus;
    without, evictions are told by namespace and no ages."""
    backlog_enforced_namespaces: tuple[Namespace, ...] = ()
    """tenant/namespace where exceeded quotas are acted on within seconds: the gate holds or refuses
    publishes, or the backlog is evicted, as the quota's policy says. This and the next two are read again
    at SIGHUP. It must be the same for all sidecars."""
    backlog_dry_run_namespaces: tuple[Namespace, ...] = ()
    """tenant/namespace where the action on an exceeded quota is only written down."""
    backlog_enforcement_seconds: Annotated[float, between(1.0, 3600.0)] = 5.0
    """how often the topics of backlog_enforced_namespaces and backlog_dry_run_namespaces are looked
    at."""
    reconcile_seconds: Annotated[float, between(0.5, 60.0, beside=0)] = 2.0
    """how often, at most, the broker's counters are compared with the gate's, which shows the traffic
    that goes round the gate. 0 is never."""
    reconcile_part: Annotated[float, between(0.001, 1.0)] = 0.1
    """the part of the time that such comparisons may take; with thousands of topics they are further
    apart, at most 30 s. It bounds their processor time at broker and sidecar; a smaller part shows later
    what goes round the gate."""
    inventory_seconds: Annotated[float, between(1.0, 86_400.0, beside=0)] = 60.0
    """how often the broker is asked for its tenants, namespaces and resource groups, to tell of
    attachments to what no longer exists, and of groups that were made at a broker. 0 is never."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """debug, info, warning or error."""

    @property
    def has_gate(self) -> bool:
        """Whether a gate stands before the broker."""
        return self.enforcement_path != NATIVE

    @property
    def reserved_topics(self) -> tuple[str, ...]:
        """The topics on which sidecars tell each other, and brokers: no client publishes there."""
        return (*self.bus_topics, RESOURCE_USAGE_TOPIC)

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
        return self._rates("broker")

    @property
    def partition_limits(self) -> Rates:
        """The limits of each partition."""
        return self._rates("partition")

    def _rates(self, of: str) -> Rates:
        keys = (
            f"{of}_{way}_rate_in_{unit}"
            for way in ("publish", "dispatch")
            for unit in ("msgs", "bytes")
        )
        return Rates(*(from_wire(getattr(self, key)) for key in keys))

    @property
    def subscribe_rate(self) -> int | None:
        """Subscriptions of one consumer per period; None is no limit."""
        return from_wire(self.subscribe_rate_per_consumer)

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


def _nanos(seconds: float) -> int:
    return round(seconds * NANOS_PER_SECOND)

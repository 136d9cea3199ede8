"""The recorded tables as a reader knows them: names, columns and the version they belong to.

The writer's side is ``coordinator/adapters/recorder/tables.py``, where every column is explained. The two
are apart because a job is shipped to a cluster alone; a test holds them together. The schema is given to
Spark explicitly: guessed from files it would differ from day to day.
"""

from __future__ import annotations

from collections.abc import Mapping

SCHEMA_VERSION = 1
"""The version of recorded files that these jobs understand."""

_COMMON = """cluster string, broker string, incarnation bigint, run string, ts timestamp,
        monotonic_ns bigint"""

SCHEMAS: Mapping[str, str] = {
    "reports": f"""{_COMMON},
        direction string, sender string, sender_incarnation bigint, sequence bigint,
        elapsed_ns bigint, report_bytes bigint, report_rows bigint, complete boolean,
        learning boolean, leaving boolean, resource_group string, configuration_version bigint,
        monitoring_class string, messages bigint, bytes bigint,
        messages_throttled_permille bigint, bytes_throttled_permille bigint,
        messages_demand bigint, bytes_demand bigint, messages_limit bigint, bytes_limit bigint,
        participants bigint, topics bigint""",
    "limits": f"""{_COMMON},
        resource_group string, dimension string, local_limit bigint, binding string, round bigint,
        decided_monotonic_ns bigint, cluster_limit bigint, reserve bigint, target bigint,
        water_level bigint, claims map<string, bigint>, in_force map<string, bigint>""",
    "admitted": f"""{_COMMON},
        second timestamp, observed_us bigint, resource_group string, monitoring_class string,
        dimension string, admitted bigint, held_us bigint, local_limit bigint,
        participants bigint, topics bigint""",
    "membership": f"""{_COMMON},
        member string, member_incarnation bigint, change string""",
    "configuration": f"""{_COMMON},
        resource_group string, configuration_version bigint, publish_messages bigint,
        publish_bytes bigint, dispatch_messages bigint, dispatch_bytes bigint, law string,
        overshoot_policy string, partition_policy string, weights string""",
    "lifecycle": f"""{_COMMON},
        cause string, second timestamp, observed_us bigint, state string, degradations array<string>,
        rows_dropped bigint""",
    "operations": f"""{_COMMON},
        operation bigint, resource_group string, configuration_version bigint, subject string,
        text string, actor string, accepted timestamp, stage string, settle_us bigint,
        residual_permille bigint, moved map<string, map<string, bigint>>""",
    "certificates": f"""{_COMMON},
        second timestamp, resource_group string, dimension string, cluster_limit bigint,
        most bigint, newcomer bigint, holders bigint""",
    "backlogs": f"""{_COMMON},
        checked timestamp, namespace string, topic string, subscription string, internal boolean,
        size_bytes bigint, age_us bigint, entries bigint, size_limit bigint, age_limit_s bigint,
        exceeded string""",
    "namespaces": f"""{_COMMON},
        minute timestamp, observed_us bigint, tenant string, namespace string,
        resource_groups array<string>, monitoring_class string, messages bigint, bytes bigint,
        held_us bigint, throttled_seconds bigint""",
    "enforcement": f"""{_COMMON},
        path string, interval_s bigint""",
    "escaped": f"""{_COMMON},
        since timestamp, observed_us bigint, tenant string, namespace string,
        resource_groups array<string>, monitoring_class string, messages bigint, bytes bigint""",
    "trees": f"""{_COMMON},
        second timestamp, resource_group string, dimension string, above array<string>,
        weight bigint, cluster_limit bigint, guarantee bigint, entitled bigint, part bigint,
        demand bigint""",
}
"""Every table's columns, as Spark's DDL."""

MARKS: Mapping[str, str] = {
    "reports": "direction",
    "limits": "round",
    "admitted": "admitted",
    "membership": "member",
    "configuration": "resource_group",
    "lifecycle": "cause",
    "operations": "stage",
    "certificates": "holders",
    "backlogs": "checked",
    "namespaces": "minute",
    "enforcement": "path",
    "escaped": "since",
    "trees": "weight",
}
"""A column of each table that every row has, and few other tables: by it a foreign file is told."""

REQUIRED = ("admitted", "configuration")
"""Without these there is no figure at all; without another one some figures are missing."""

RARE = (
    "operations", "certificates", "backlogs", "namespaces", "enforcement", "escaped", "trees",
)  # fmt: skip
"""Tables that a good recording may lack: nothing need have happened that is written there."""

DIMENSION_COLUMNS: Mapping[str, str] = {
    "publishRateInMsgs": "publish_messages",
    "publishRateInBytes": "publish_bytes",
    "dispatchRateInMsgs": "dispatch_messages",
    "dispatchRateInBytes": "dispatch_bytes",
}
"""The column of ``configuration`` that holds each dimension's limit."""

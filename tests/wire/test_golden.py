"""Golden bytes: reports that a real broker of Pulsar 4.2.4 published, captured from its topic.

``tests/integration/test_reports_of_pulsar.py`` does the same live, and the other way round.
"""

import pytest

from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.reports import BadReport, decode

PREFIX = "0a1870756c7361723a2f2f3132372e302e302e313a3233383132"
TRAFFIC = bytes.fromhex(f"{PREFIX}12160a06676f6c64656e120508a006100a1a0508a006100a")
NO_TRAFFIC = bytes.fromhex(f"{PREFIX}12140a06676f6c64656e1204080010001a0408001000")
SUPPRESSED = bytes.fromhex(f"{PREFIX}12080a06676f6c64656e")


@pytest.mark.parametrize("payload", [TRAFFIC, NO_TRAFFIC, SUPPRESSED])
def test_a_brokers_bytes_are_the_bytes_that_we_would_write(payload: bytes) -> None:
    """Same fields, same numbers, same order: parsed and serialised again they are unchanged."""
    info = pb.ResourceUsageInfo.FromString(payload)

    assert info.SerializeToString() == payload
    assert info.broker == "pulsar://127.0.0.1:23812"
    assert [row.owner for row in info.usageMap] == ["golden"]


def test_a_brokers_figures_are_where_we_look_for_them() -> None:
    """Ten messages of 80 bytes, published and dispatched."""
    row = pb.ResourceUsageInfo.FromString(TRAFFIC).usageMap[0]

    assert (row.publish.messagesPerPeriod, row.publish.bytesPerPeriod) == (10, 800)
    assert (row.dispatch.messagesPerPeriod, row.dispatch.bytesPerPeriod) == (10, 800)


def test_a_brokers_own_report_is_not_taken_for_a_sidecars() -> None:
    """It says nothing of time, limits or incarnation, so it cannot count as usage of a sidecar."""
    with pytest.raises(BadReport, match="incarnation is missing"):
        decode(TRAFFIC, {})

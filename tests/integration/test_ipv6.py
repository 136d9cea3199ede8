"""A cluster without IPv4: ZooKeeper, bookie, brokers, gates, buses and clients on ::1."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import Measure
from tests.integration.on_ipv6 import LIMIT, Seen
from tests.integration.windows import hold, sums
from tests.own_hosts import WITH_IPV6, with_hosts

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

#: ::1 and ::, as /proc/net/tcp6 writes them.
LOOPBACK_OF_THE_KERNEL = "00000000000000000000000001000000"
ANY_OF_THE_KERNEL = "0" * 32
#: ZooKeeper, the bookie, each broker's two listeners and web service, each sidecar's gate and API.
LISTENERS = 1 + 1 + 2 * 3 + 2 * 2


def test_a_cluster_on_ipv6_alone_is_held_to_its_limit(tmp_path: Path, measured: Measure) -> None:
    """Gates on ::1 share 400/s in halves, and nothing listens to IPv4; a bookie listens everywhere."""
    program = [sys.executable, "-m", "tests.integration.on_ipv6", str(tmp_path)]
    told = subprocess.run(
        with_hosts(WITH_IPV6, tmp_path, program), capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    seen = Seen(**json.loads(told.stdout))

    at = Counter(seen.listening)
    assert at == {LOOPBACK_OF_THE_KERNEL: LISTENERS - 1, ANY_OF_THE_KERNEL: 1}
    assert set(seen.limit_of.values()) == {LIMIT // 2}
    hold(measured, f"{LIMIT} on ::1", sums(seen.rates), {"sum": LIMIT})
    hold(measured, f"{LIMIT} on ::1", seen.rates, dict.fromkeys(seen.limit_of, LIMIT / 2), 0.05)

"""``doctor --native`` asks the brokers of a real cluster, and what it proposes can be used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.native.engine.conditions import TRANSPORT
from deploy.local.cluster import Cluster
from deploy.local.sidecars import PROGRAM

pytestmark = pytest.mark.cluster


def test_brokers_that_read_no_entries_are_told_what_they_lack(
    cluster: Cluster, tmp_path: Path
) -> None:
    """All of them, from one address; each sidecar's configuration is accepted."""
    command = [sys.executable, *PROGRAM, "--json", "doctor", "--native", cluster.web_url()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = json.loads(done.stdout)

    assert done.returncode == 1
    brokers = [each for each in found if each["subject"] == "broker"]
    assert [each["level"] for each in brokers] == ["wrong"] * len(cluster.brokers)
    assert all(f"resourceUsageTransportClassName={TRANSPORT}" in each["fix"] for each in brokers)
    proposed = [each["fix"].partition("\n")[2] for each in found if each["subject"] == "sidecar"]
    assert len(proposed) == len(cluster.brokers)
    for number, lines in enumerate(proposed):
        file = tmp_path / f"{number}.toml"
        file.write_text(lines)
        check = [sys.executable, *PROGRAM, "config", "check", str(file)]
        assert subprocess.run(check, timeout=60, check=False, capture_output=True).returncode == 0

"""``doctor --native`` asks the brokers of a real cluster, and what it proposes can be used."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import PROGRAM

pytestmark = pytest.mark.cluster


def test_what_is_proposed_for_brokers_that_read_entries_can_be_used(
    cluster: Cluster, tmp_path: Path
) -> None:
    """One address leads to all brokers, and each sidecar's configuration is accepted."""
    command = [sys.executable, *PROGRAM, "--json", "doctor", "--native", cluster.web_url()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = json.loads(done.stdout)

    assert (done.returncode, {each["level"] for each in found}) == (0, {"ok", "note"})
    read = [each["text"] for each in found if each["subject"] == "broker"]
    assert len(read) == len(cluster.brokers)
    assert all("reads the topic of resource usage every" in text for text in read)
    proposed = [each["fix"].partition("\n")[2] for each in found if each["subject"] == "sidecar"]
    asked = {broker.web_url for broker in cluster.brokers}
    assert {tomllib.loads(lines)["broker_web_url"] for lines in proposed} == asked
    for number, lines in enumerate(proposed):
        file = tmp_path / f"{number}.toml"
        file.write_text(lines)
        check = [sys.executable, *PROGRAM, "config", "check", str(file)]
        assert subprocess.run(check, timeout=60, check=False, capture_output=True).returncode == 0

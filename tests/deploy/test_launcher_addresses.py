"""The address that a cluster is on: how it is written, and what names it where it cannot stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local import layout
from deploy.local.__main__ import main
from deploy.local.addresses import LOOPBACK, LOOPBACK_6, at, bracketed, name_of
from deploy.local.commands import JavaRuntime
from deploy.local.layout import ClusterOptions
from deploy.local.state import ClusterState
from tests.own_hosts import NAME_6, WITH_IPV6, WITHOUT_IPV6, with_hosts

PLAN = "import sys; from tests.deploy.test_launcher_addresses import plan; plan(sys.argv[1])"


def planned(directory: Path, host: str) -> ClusterState:
    """A cluster that is laid out and not started."""
    runtime = JavaRuntime(Path("/java"), Path("/jars"), directory / "conf" / "log4j2.xml")
    options = ClusterOptions(brokers=1, zookeepers=3, host=host)
    return layout.lay_out(options, directory, runtime, range(20000, 20064))


def plan(directory: str) -> None:
    """Lay a cluster out on ::1 and print its addresses."""
    state = planned(Path(directory), LOOPBACK_6)
    (broker,) = state.brokers
    urls = (broker.web_url, broker.admin_url, broker.gate_url)
    sys.stdout.write(" ".join((state.zookeeper_connect, *urls)))


def test_an_ipv6_address_stands_in_brackets() -> None:
    """As URLs and configuration files have it; others do not."""
    assert (at("::1", 7), at("127.0.0.1", 7), bracketed("a.b")) == ("[::1]:7", "127.0.0.1:7", "a.b")


def test_an_ipv4_address_is_its_own_name() -> None:
    """Pulsar's clients take it in service URLs."""
    assert name_of(LOOPBACK) == LOOPBACK


def test_without_a_name_for_it_a_cluster_on_ipv6_is_wrong_use(tmp_path: Path) -> None:
    """Exit code 2 before anything is written, and the line that /etc/hosts lacks."""
    state = tmp_path / "state"
    up = [sys.executable, "-m", "deploy.local", "up", "--host", "::1", "--state-dir", str(state)]
    told = subprocess.run(
        with_hosts(WITHOUT_IPV6, tmp_path, up), capture_output=True, text=True, check=False
    )

    assert told.returncode == 2, told.stderr
    assert f"Add the line `::1 {NAME_6}` to /etc/hosts." in told.stderr
    assert not state.exists()


def test_on_ipv6_service_urls_have_a_name_and_all_else_the_address(tmp_path: Path) -> None:
    """A broker's own address is the name, too: a namespace is called after it."""
    command = with_hosts(WITH_IPV6, tmp_path, [sys.executable, "-c", PLAN, str(tmp_path)])
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    conf = (tmp_path / "conf" / "broker-1.conf").read_text().splitlines()

    assert told == [
        "[::1]:20000,[::1]:20003,[::1]:20006",
        "http://[::1]:20011",
        "http://[::1]:20014",
        f"pulsar://{NAME_6}:20012",
    ]
    assert f"metadataStoreUrl=zk:{NAME_6}:20000,{NAME_6}:20003,{NAME_6}:20006" in conf
    assert "bindAddress=[::1]" in conf
    assert "bindAddresses=external:pulsar://[::1]:20013" in conf
    assert f"advertisedAddress={NAME_6}" in conf
    advertised = f"internal:pulsar://{NAME_6}:20010,external:pulsar://{NAME_6}:20012"
    assert f"advertisedListeners={advertised}" in conf
    ensemble = (tmp_path / "conf" / "zookeeper-1.cfg").read_text().splitlines()
    assert {"clientPortAddress=::1", "server.2=[::1]:20004:20005"} <= set(ensemble)
    assert f"advertisedAddress={NAME_6}" in (tmp_path / "conf" / "bookie.conf").read_text()


def test_an_address_that_is_no_loopback_address_is_wrong_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A cluster without access control is for this machine alone."""
    with pytest.raises(SystemExit, match="2"):
        main(["up", "--host", "0.0.0.0"])
    assert "choose from" in capsys.readouterr().err

"""cluster.json, and what a cluster does when its processes fail, with a stand-in for Java."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.local import layout, processes, state
from deploy.local.__main__ import main
from deploy.local.cluster import Cluster
from deploy.local.commands import JavaRuntime
from deploy.local.errors import LocalClusterError, WrongUseError
from deploy.local.layout import ClusterOptions
from deploy.local.processes import ProcessIdentity
from deploy.local.state import ClusterState


def laid_out(directory: Path, **choices: int | Sequence[str]) -> ClusterState:
    """Lay a cluster out in a directory, and start nothing."""
    runtime = JavaRuntime(Path("/java"), Path("/jars"), directory / "conf" / "log4j2.xml")
    options = ClusterOptions(**choices)  # type: ignore[arg-type]
    planned = layout.lay_out(options, directory, runtime, range(20000, 20064))
    state.write(planned)
    return planned


def running_sleeper(directory: Path, planned: ClusterState, name: str) -> ProcessIdentity:
    """Let a harmless process run under a server's name."""
    process = processes.start(["sleep", "60"], directory / "logs" / "sleep", directory)
    state.write(planned.with_process(name, process))
    return process


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """cluster.json holds the whole state."""
    planned = laid_out(tmp_path, brokers=2, zookeepers=3)
    planned = planned.with_process("bookie", ProcessIdentity(4711, "boot:1"))
    state.write(planned)
    assert state.read(tmp_path).to_dict() == planned.to_dict()


@pytest.mark.parametrize("quick", [True, False])
def test_the_servers_of_a_quick_cluster_compile_quickly(tmp_path: Path, quick: bool) -> None:
    """Options of the brokers' Java come later, and the last of a kind is the one that Java takes."""
    own, level_1 = "-XX:TieredStopAtLevel=4", "-XX:TieredStopAtLevel=1"
    planned = laid_out(tmp_path, quick=quick, broker_java_options=[own])

    for server in (planned.bookie, *planned.brokers):
        assert (level_1 in server.command) is quick
    broker = planned.brokers[0].command
    assert own in broker[broker.index(level_1) if quick else 0 :]


def test_a_restarted_server_is_the_same_server(tmp_path: Path) -> None:
    """Another pid makes no other broker, or a topic would not be found back at its owner."""
    planned = laid_out(tmp_path)
    later = planned.with_process("broker-1", ProcessIdentity(4711, "boot:1"))
    assert later.brokers[0] == planned.brokers[0]
    assert later.brokers[0].process != planned.brokers[0].process


def test_no_two_ports_of_a_cluster_are_the_same(tmp_path: Path) -> None:
    """Ten brokers with five ports each and three ZooKeepers fit into one block."""
    planned = laid_out(tmp_path, brokers=10, zookeepers=3)
    taken = [planned.bookie.port, *(server.port for server in planned.zookeepers)]
    for broker in planned.brokers:
        taken += [broker.broker_port, broker.web_port, broker.admin_port]
        taken += [broker.gate_port, broker.gate_upstream_port]
    assert len(set(taken)) == len(taken) == 54


def test_further_listeners_have_ports_of_their_own(tmp_path: Path) -> None:
    """Each broker and name has a port, written down for the program that will listen there."""
    laid_out(tmp_path, listeners=("bus-1", "bus-2"))
    brokers = state.read(tmp_path).brokers
    ports = [port for broker in brokers for port in broker.listener_ports.values()]
    assert [tuple(broker.listener_ports) for broker in brokers] == [("bus-1", "bus-2")] * 3
    assert len(set(ports)) == 6
    assert not set(ports) & {broker.admin_port for broker in brokers}


def test_more_listeners_than_there_are_ports_are_refused() -> None:
    """Before anything is written."""
    with pytest.raises(WrongUseError, match="10 brokers with 1 further listeners need 60 ports"):
        ClusterOptions(brokers=10, listeners=["bus"]).validate()


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    """A damaged file is refused, too, as a failure and not as a missing cluster."""
    laid_out(tmp_path)
    file = state.file_of(tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"leader": "broker-1"}))
    with pytest.raises(LocalClusterError, match="leader"):
        state.read(tmp_path)
    file.write_text("{")
    with pytest.raises(LocalClusterError, match="not readable"):
        state.read(tmp_path)


def test_a_directory_without_a_cluster_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that needs a cluster says so and exits with 2."""
    absent = str(tmp_path / "absent")
    for command in (["status"], ["down"], ["kill", "bookie"], ["restart", "bookie"]):
        assert main([*command, "--state-dir", absent]) == 2
        assert "No cluster" in capsys.readouterr().err


def test_an_unknown_name_is_answered_with_the_names_there_are(tmp_path: Path) -> None:
    """A typing error can be corrected."""
    laid_out(tmp_path)
    with pytest.raises(WrongUseError, match="zookeeper, bookie, broker-1, broker-2, broker-3"):
        Cluster(tmp_path).kill("broker-4")


def test_a_killed_server_is_gone_when_kill_returns(tmp_path: Path) -> None:
    """Killing it again is wrong use."""
    process = running_sleeper(tmp_path, laid_out(tmp_path), "broker-2")
    cluster = Cluster(tmp_path)
    assert cluster.brokers[1].alive
    cluster.kill("broker-2", signal.SIGKILL)
    assert not processes.is_alive(process)
    with pytest.raises(WrongUseError, match="does not run"):
        cluster.kill("broker-2")


def test_up_over_a_running_cluster_is_refused(
    tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running one is named and nothing of it is touched."""
    monkeypatch.setenv("JAVA_HOME", str(java))
    process = running_sleeper(tmp_path, laid_out(tmp_path), "bookie")
    with pytest.raises(WrongUseError, match=r"runs in .* already \(bookie\)"):
        Cluster.start(ClusterOptions(state_dir=tmp_path))
    assert processes.is_alive(process)
    Cluster(tmp_path).stop()
    assert not processes.is_alive(process)


def test_stopping_leaves_what_others_put_into_the_directory(tmp_path: Path) -> None:
    """Only what the launcher wrote is removed."""
    directory = tmp_path / "cluster"
    directory.mkdir()
    laid_out(directory)
    (directory / "notes.txt").write_text("mine")
    Cluster(directory).stop()
    assert [file.name for file in directory.iterdir()] == ["notes.txt"]
    (directory / "notes.txt").unlink()
    laid_out(directory)
    Cluster(directory).stop()
    assert not directory.exists()


def test_stopping_can_keep_data_and_logs(tmp_path: Path) -> None:
    """With keep, cluster.json and the logs stay."""
    laid_out(tmp_path)
    Cluster(tmp_path).stop(keep=True)
    assert (tmp_path / "logs").is_dir()
    assert not Cluster(tmp_path).state.bookie.alive


def test_the_body_of_a_with_statement_may_fail(tmp_path: Path) -> None:
    """The cluster is stopped all the same."""
    process = running_sleeper(tmp_path, laid_out(tmp_path), "broker-1")
    with pytest.raises(ZeroDivisionError), Cluster(tmp_path):
        raise ZeroDivisionError
    assert not processes.is_alive(process)


def test_two_commands_do_not_change_a_cluster_at_once(tmp_path: Path) -> None:
    """The second is refused, not kept waiting."""
    laid_out(tmp_path)
    with state.locked(tmp_path), pytest.raises(WrongUseError, match="Another command"):
        Cluster(tmp_path).stop()
    Cluster(tmp_path).stop()


def test_a_failure_of_a_command_is_not_taken_for_another_command(tmp_path: Path) -> None:
    """The system tells in the same way that it has no process left to start."""
    laid_out(tmp_path)
    with pytest.raises(BlockingIOError), state.locked(tmp_path):
        raise BlockingIOError


@pytest.fixture
def java(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of a Java that knows its version and fails at everything else, and cached jars."""
    root = tmp_path_factory.mktemp("java")
    program = root / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        f"#!{shutil.which('sh')}\n"
        '[ "$1" = -version ] && { echo \'version "17.0.1"\' >&2; exit 0; }\n'
        "echo no memory today; exit 3\n"
    )
    program.chmod(0o755)
    (root / "pulsar-4.2.4").mkdir()
    monkeypatch.setenv("PULSAR_QUOTA_CACHE", str(root))
    return root


def test_a_process_that_dies_at_start_is_named_with_its_log(
    tmp_path: Path,
    java: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1, the server's name, its last words, and nothing left running."""
    monkeypatch.setenv("JAVA_HOME", str(java))
    assert main(["up", "--state-dir", str(tmp_path / "s")]) == 1
    said = capsys.readouterr().err
    assert "zookeeper died" in said
    assert "no memory today" in said
    assert not any(server.alive for server in Cluster(tmp_path / "s").state.servers)


@pytest.mark.parametrize(
    "words", [["--brokers", "0"], ["--zookeepers", "2"], ["--pulsar", "latest"]]
)
def test_options_out_of_range_are_wrong_use(words: list[str], tmp_path: Path, java: Path) -> None:
    """Exit code 2 and no directory."""
    assert main(["up", "--state-dir", str(tmp_path / "s"), *words]) == 2
    assert not (tmp_path / "s").exists()


def test_a_directory_that_cannot_be_made_is_wrong_use(
    tmp_path: Path,
    java: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file is in its way; the error names it, and the option."""
    monkeypatch.setenv("JAVA_HOME", str(java))
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        assert main(["up", "--state-dir", str(tmp_path / place)]) == 2
        assert f"{tmp_path / place} cannot be made a directory" in capsys.readouterr().err

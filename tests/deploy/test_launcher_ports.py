"""The ports of a local cluster: where they come from, and what is never taken."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from deploy.local import ports
from deploy.local.errors import LocalClusterError


def test_the_ephemeral_range_is_read_from_the_kernel(tmp_path: Path) -> None:
    """The two numbers in the kernel's file are the range."""
    file = tmp_path / "range"
    file.write_text("20000\t30000\n")
    assert ports.ephemeral_range(file) == (20000, 30000)


def test_a_system_that_does_not_say_is_taken_to_be_like_linux(tmp_path: Path) -> None:
    """Without the kernel's file the default range is assumed."""
    assert ports.ephemeral_range(tmp_path / "absent") == (32768, 60999)


@pytest.mark.parametrize("ephemeral", [(32768, 60999), (1024, 40000), (49152, 65535)])
def test_no_candidate_touches_the_ephemeral_range(ephemeral: tuple[int, int]) -> None:
    """Every block lies wholly below or wholly above it, and above the ports people use by hand."""
    first, last = ephemeral
    blocks = ports.candidate_blocks(ephemeral, 64)
    assert blocks
    for block in blocks:
        assert len(block) == 64
        assert block[-1] < first or block[0] > last
        assert block[0] >= 10240
        assert block[-1] <= 65535


def test_blocks_do_not_overlap() -> None:
    """No port belongs to two blocks."""
    every = [port for block in ports.candidate_blocks((32768, 60999), 64) for port in block]
    assert len(every) == len(set(every))


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_a_port_in_use_is_not_free(host: str, family: socket.AddressFamily) -> None:
    """A listening socket makes its port taken, and closing it makes it free."""
    with socket.create_server((host, ports.free_block(host=host)[0]), family=family) as server:
        port = server.getsockname()[1]
        assert not ports.is_free(port, host)
    assert ports.is_free(port, host)


def test_a_machine_without_the_address_is_told_of_the_other() -> None:
    """TEST-NET-1 (RFC 5737) is no machine's."""
    with pytest.raises(LocalClusterError, match=r"no 192\.0\.2\.1 .*; choose 127\.0\.0\.1 or ::1"):
        ports.free_block(host="192.0.2.1")


def test_one_port_in_use_spoils_its_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second cluster never takes what the first one has only reserved."""
    block = ports.free_block()
    monkeypatch.setattr(ports, "candidate_blocks", lambda *_: [block])
    assert ports.free_block() == block
    with (
        socket.create_server(("127.0.0.1", block[7])),
        pytest.raises(LocalClusterError, match="consecutive free ports"),
    ):
        ports.free_block()

"""``top`` while it runs: frames follow each other, and a sidecar that falls silent does not end it."""

from __future__ import annotations

import httpx
import pytest

from tests.cli.conftest import InProcess, Run


class FailsOnce(httpx.BaseTransport):
    """Answers, then fails for one frame, then answers again."""

    def __init__(self, carrier: InProcess) -> None:
        self._carrier = carrier
        self.frame = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the app, except in the second frame."""
        if self.frame == 1:
            raise httpx.ConnectError("refused")
        return self._carrier.handle_request(request)


@pytest.mark.parametrize(("frames", "is_old"), [(1, False), (2, True), (3, False)])
def test_silence_is_a_line_in_the_table(
    run: Run, transport: InProcess, monkeypatch: pytest.MonkeyPatch, frames: int, is_old: bool
) -> None:
    """The last known table stays on the screen, under a line that says why it is old."""
    carrier = FailsOnce(transport)

    def pass_time(_: float) -> None:
        carrier.frame += 1
        if carrier.frame == frames:
            raise KeyboardInterrupt

    # Only the command's sleep: other threads sleep, too.
    monkeypatch.setattr("coordinator.cli.top.sleep", pass_time)

    shown = run("top", carrier=carrier)

    assert shown.exit_code == 0
    assert "group orders: 3,000/s" in shown.stdout
    assert ("No answer, the table below is old" in shown.stdout) is is_old

"""The broker's counters of evictions, in its metrics as they come and as a hostile broker writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from coordinator.adapters.broker.backlog import HttpBacklogSource
from coordinator.adapters.broker.evictions import evictions_in
from coordinator.backlog.rules.model import QuotaType
from coordinator.ports import BrokerUnreachable, Refused

TOPIC = "persistent://shop/orders/incoming"
NAME = "pulsar_storage_backlog_quota_exceeded_evictions_total"
METRICS = f"""# TYPE {NAME} counter
{NAME}{{cluster="c",namespace="shop/orders",topic="{TOPIC}",quota_type="size"}} 3
{NAME}{{cluster="c",namespace="shop/orders",topic="{TOPIC}",quota_type="time"}} 0.0
{NAME}{{cluster="c",namespace="shop/orders",topic="{TOPIC}",partition="2",quota_type="time"}} 4 1700000000
pulsar_broker_storage_backlog_quota_exceeded_evictions_total{{cluster="c",quota_type="size"}} 9
{NAME}{{cluster="c",namespace="shop/returns",quota_type="time"}} 1
"""


async def in_pieces(text: bytes, size: int) -> AsyncIterator[bytes]:
    """Bytes as a connection brings them."""
    for at in range(0, len(text), size):
        yield text[at : at + size]


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
async def test_counts_are_read_wherever_the_answer_is_cut(size: int) -> None:
    """By topic, by partition where that is a label of its own, and by namespace without topics."""
    assert await evictions_in(in_pieces(METRICS.encode(), size)) == {
        (TOPIC, QuotaType.SIZE): 3,
        (TOPIC, QuotaType.TIME): 0,
        (f"{TOPIC}-partition-2", QuotaType.TIME): 4,
        ("shop/returns", QuotaType.TIME): 1,
    }


@pytest.mark.parametrize(
    "line",
    [
        f'{NAME}{{namespace="a/b",quota_type="size"}} NaN',
        f'{NAME}{{namespace="a/b",quota_type="size"}} -1',
        f'{NAME}{{namespace="a/b",quota_type="size"}} 1e400',
        f'{NAME}{{namespace="a/b",quota_type="size"}} {"9" * 400}',
        f'{NAME}{{namespace="a/b",quota_type="colour"}} 1',
        f'{NAME}{{quota_type="size"}} 1',
        f"{NAME} 1",
        "\x00\xff{}{",
    ],
)
async def test_a_line_that_makes_no_sense_counts_nothing(line: str) -> None:
    """The lines around it do."""
    text = f"{line}\n{METRICS}{line}\n".encode("latin-1")
    assert len(await evictions_in(in_pieces(text, 50))) == 4


@pytest.mark.parametrize("end", ["", '",quota_type="size"} 7\n', f"\n{METRICS}"])
@pytest.mark.parametrize("size", [1_000, 65_536])
async def test_a_line_that_is_too_long_is_passed_over(size: int, end: str) -> None:
    """It would fill the memory, and a client can make one by the name of a topic; others are read."""
    long = f'{NAME}{{namespace="a/b",topic="persistent://a/b/{"x" * 200_000}'
    text = f"{METRICS}{long}{end}{METRICS}".encode()
    assert len(await evictions_in(in_pieces(text, size))) == 4


@pytest.mark.parametrize(("status", "error"), [(403, Refused), (500, BrokerUnreachable)])
async def test_an_answer_that_is_none_is_named(status: int, error: type[Exception]) -> None:
    """The check of backlogs goes on without it."""
    transport = httpx.MockTransport(lambda _: httpx.Response(status, text="no"))
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        with pytest.raises(error, match=str(status)):
            await source.evictions()


async def test_the_metrics_are_asked_for_where_the_broker_has_them() -> None:
    """Beside its admin REST, with the slash that saves a redirect."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/metrics/"
        return httpx.Response(200, text=METRICS)

    async with HttpBacklogSource("http://broker", transport=httpx.MockTransport(answer)) as source:
        assert len(await source.evictions()) == 4

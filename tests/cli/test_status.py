"""``status``, ``explain`` and ``top``: what the sketches show, from the views."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from coordinator.cli.frames import RateHistory, fair_share, read_frame, spark_line, state_of
from coordinator.cli.session import GlobalOptions
from coordinator.cli.status import TRIED_OUT, summary_rows
from coordinator.core.certificate.statement import Certificate
from coordinator.core.events import MembersChanged
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import NANOS_PER_SECOND, Dimension, Member, Rates
from coordinator.core.usage.agreement import Matter
from coordinator.insight.model.delayed import DelayedTopic, DelayedView
from coordinator.insight.model.views import DisagreementView, GroupUsageView, WantView
from coordinator.ports import RecorderHealth
from tests.admin_api.world import World, usage_row
from tests.cli.conftest import InProcess, Run


def cells(output: str, first: str) -> list[str]:
    """The words of the last line that starts with a name: of its row in the table."""
    return [line for line in output.splitlines() if line.split()[:1] == [first]][-1].split()


def test_status(run: Run) -> None:
    """Members with the age of their reports, and a line per limit."""
    shown = run("status").stdout

    assert shown.startswith("broker-1 is ACTIVE (ready), round 812\n")
    assert cells(shown, "broker-2") == ["broker-2", "127.0.0.1:8088", "19", "0.21", "s", "ago"]
    assert cells(shown, "orders") == (
        ["orders", "publish", "messages", "3,000", "3,000", "2,991", "100", "%", "2", "broker-2"]
    )


def test_a_long_silence_is_told_in_hours_and_minutes(run: Run, world: World) -> None:
    """Thousands of seconds are no age that an operator reads."""
    seconds = 4_381
    silent = replace(world.views.health().members[1], report_age_ns=seconds * NANOS_PER_SECOND)
    since = DisagreementView("broker-2", Matter.USAGE, 185 * NANOS_PER_SECOND)
    world.views.turn(members=(world.views.health().members[0], silent), disagreements=(since,))

    shown = run("status").stdout

    assert cells(shown, "broker-2")[3:] == ["1", "h", "13", "min", "ago"]
    assert "broker-2 has gone by other usage for 3 min 5 s" in shown


def test_a_group_that_is_tried_out_has_no_throttled_brokers() -> None:
    """Nothing waits for it; and brokers count that have a client of it."""
    away = replace(usage_row("broker-2", 0, 50, 0), participants=0)
    rows = (usage_row("broker-1", 90, 50, 500), away)
    usage = GroupUsageView("orders", "observe", {}, Rates(publish_messages=100), rows)

    assert summary_rows(usage, {}) == [
        ("orders", "publish messages", "100", "?", "90", "90 %", "1", TRIED_OUT)
    ]


def test_status_while_degraded(run: Run, world: World) -> None:
    """The reason is the text that the core has for it."""
    world.views.turn(
        state=Lifecycle.DEGRADED,
        degradations=(Degradation.BUS_SILENT,),
        ready=False,
        reports_dropped={"stale": 1, "forged": 2},
        disagreements=(DisagreementView("broker-2", Matter.DEFINITIONS, 4_200_000_000),),
        foreign_reports={"broker-2": 3},
        announcements_capped={"broker-3": 21},
    )

    shown = run("status").stdout

    assert shown.startswith("broker-1 is DEGRADED (not ready)")
    assert f"degraded: {Degradation.BUS_SILENT.value}" in shown
    assert "1 report dropped: stale" in shown
    assert "2 reports dropped: forged" in shown
    assert "broker-2 has gone by other definitions for 4.20 s" in shown
    assert "3 reports in the name of broker-2 came from elsewhere" in shown
    assert "broker-3 announced more than twice its target 21 times" in shown


def test_status_while_nothing_can_be_recorded(run: Run, world: World) -> None:
    """Why, what waits and what is lost; nothing is said of recording that works."""
    world.views.recorded = RecorderHealth(recording=True, rows_waiting=7)
    assert "record" not in run("status").stdout

    world.views.recorded = RecorderHealth(
        recording=False, reason="no space left", rows_waiting=20, rows_dropped=1_000
    )
    shown = run("status").stdout

    assert "cannot record: no space left (20 rows waiting, 1,000 dropped)" in shown


def test_status_of_a_group_without_limits(run: Run) -> None:
    """It has a line, and the line says so."""
    run("groups", "update", "orders", "-mp", "-1")

    assert cells(run("status").stdout, "orders")[:3] == ["orders", "-", "unlimited"]


def test_explain(run: Run) -> None:
    """Headline, sentence, water level, and who wants what."""
    shown = run("explain", "orders", "--broker", "broker-2").stdout

    headline, sentence, level = shown.splitlines()[:3]
    assert headline == (
        "orders · publish messages · broker-2    limit 2,000/s    (decided 0.4 s ago, round 812)"
    )
    assert sentence == "  broker-2 has what it has."
    assert level.startswith("  Water level 2,000: brokers that want more are cut there.")
    assert "  This would change it: a higher limit; less demand." in shown.splitlines()
    row = "broker-2 (me) > 2,000 2,000 1,990 61 % 0.21 s 1"
    assert cells(shown, "broker-2") == row.split()


def test_explain_says_when_nothing_can_be_certified(run: Run, world: World) -> None:
    """It says why; status then shows no number."""
    nothing = Certificate(
        "orders",
        Dimension.PUBLISH_MESSAGES,
        3_000,
        None,
        newcomer=0,
        burst=0,
        obstacle="it has just stood still",
    )
    world.views.certified["orders"] = (nothing,)

    told = "Nothing can be said of what all may hold together: it has just stood still."
    assert told in run("explain", "orders").stdout
    assert cells(run("status").stdout, "orders")[4] == "?"


def test_explain_says_which_delayed_messages_are_so_in_vain(run: Run, world: World) -> None:
    """A line for what counts, and one for each topic where it has no effect."""
    topic = DelayedTopic("persistent://shop/orders/later", 12, 5)
    world.gate.counted_apart = DelayedView(12, 5, (topic,))
    world.app.state.backend = replace(world.backend, delayed_group="orders")

    shown = run("explain", "orders", columns=200).stdout

    assert "Messages with deliver_at_time count here, whatever its value: 12 at this gate" in shown
    assert "5 of 12 delayed messages to persistent://shop/orders/later were due when they" in shown


def test_explain_lists_what_was_decided(run: Run, world: World) -> None:
    """Newest first, with the time and the sentence of each."""
    world.handle(MembersChanged((Member("broker-1", 1),)))
    asyncio.run(world.watch.look())
    run("groups", "update", "orders", "-mp", "1600")
    asyncio.run(world.watch.look())

    shown = run("explain", "orders", "--history").stdout.splitlines()

    told = [line.split()[1:4] for line in shown]
    now, then = ["1,600", "8", "reserve"], ["3,000", "15", "reserve"]
    assert told.index(now) < told.index(then)
    assert "arrival reserve" in shown[told.index(now)]
    listed = json.loads(run("explain", "orders", "--history", "--json").stdout)
    assert [each["localLimit"] for each in listed] == [8, 15]


def test_explain_at_a_time_tells_what_was_in_force_then(run: Run, world: World) -> None:
    """The time of day selects it; the past has no certificate."""
    world.handle(MembersChanged((Member("broker-1", 1),)))
    asyncio.run(world.watch.look())
    world.clock.advance(3_600_000_000_000)
    asyncio.run(world.watch.look())
    minute_ago = (datetime.now(UTC).astimezone() - timedelta(minutes=1)).time()

    shown = run("explain", "orders", "--at", f"{minute_ago:%H:%M:%S}").stdout.splitlines()

    assert shown[0].startswith("As decided at ")
    assert shown[0].endswith(f"in force at {minute_ago:%H:%M:%S}:")
    assert "limit 15/s" in shown[1]
    then = json.loads(run("explain", "orders", "--at", f"{minute_ago:%H:%M}", "--json").stdout)
    assert (then["localLimit"], "certificates" in then) == (15, False)


def test_explain_tells_the_story_behind_the_limit(run: Run, world: World) -> None:
    """Below the explanation: the age of each event, and what was decided of it below that."""
    world.clock.advance(61_000_000_000)
    world.handle(MembersChanged((Member("broker-1", 1),)))
    world.clock.advance(210_000_000)

    lines = run("explain", "orders", "--story").stdout.splitlines()

    begins = lines.index(
        "The story so far, oldest first. The story is whole since this sidecar started."
    )
    told = [" ".join(line.split()) for line in lines[begins:]]
    created = told.index("1 min 1 s ago The group orders was created: publishRateInMsgs 3,000.")
    assert told[created + 1].startswith("broker-1 sets publishRateInMsgs to 15 messages/s.")
    assert "0.21 s ago The membership was read: 1 broker is a member now." in told
    asked = json.loads(run("explain", "orders", "--story", "--json").stdout)
    assert [event["ageMillis"] for event in asked["story"]["events"]][-1] == 210


@pytest.mark.parametrize(
    "words",
    [
        ("--history", "--at", "12:03"),
        ("--history", "--broker", "b"),
        ("--history", "--story"),
        ("--at", "noon"),
    ],
)
def test_a_past_that_cannot_be_asked_for_is_wrong_use(run: Run, words: tuple[str, ...]) -> None:
    """The message names the options that exclude each other, or the time that cannot be read."""
    refused = run("explain", "orders", *words)

    assert refused.exit_code == 2
    assert "--history lists" in refused.stderr or "use HH:MM" in refused.stderr


def test_a_throttled_demand_is_shown_as_a_band(run: Run, world: World) -> None:
    """The band has the least and the most, where the two differ."""
    key = ("orders", Dimension.PUBLISH_MESSAGES, "broker-1")
    found = world.views.explanations[key]
    calm, throttled = found.wants
    throttled = replace(throttled, wants=2_600, wants_at_least=2_000)
    world.views.explanations[key] = replace(found, wants=(calm, throttled))

    shown = run("explain", "orders").stdout
    assert cells(shown, "broker-2")[1] == "2,000-2,600"
    assert cells(shown, "broker-1")[2] == "1,001"


@pytest.mark.parametrize("words", [("explain", "orders"), ("top", "--once")])
def test_a_limit_with_a_fraction_is_shown_as_it_is(
    run: Run, world: World, words: tuple[str, ...]
) -> None:
    """Of a throttled broker as well, whose demand is more than that."""
    key = ("orders", Dimension.PUBLISH_MESSAGES, "broker-1")
    found = world.views.explanations[key]
    calm, throttled = found.wants
    throttled = replace(throttled, limit=Fraction(5, 2))
    world.views.explanations[key] = replace(found, wants=(calm, throttled))

    shown = run(*words)

    assert shown.exit_code == 0, shown.output
    row = cells(shown.stdout, "broker-2")
    at = row.index(">")
    assert row[at : at + 3] == [">", "2.5", "2.5"]


def test_what_the_api_says_is_no_markup(run: Run, world: World) -> None:
    """Brackets in a sentence are shown, not taken for a colour."""
    key = ("orders", Dimension.PUBLISH_MESSAGES, "broker-1")
    world.views.explanations[key] = replace(world.views.explanations[key], sentence="[red]:cat:")

    assert "  [red]:cat:\n" in run("explain", "orders").stdout


def test_explain_without_participants(run: Run, world: World) -> None:
    """Without a participant there is no level, and no table."""
    key = ("orders", Dimension.PUBLISH_MESSAGES, "broker-1")
    alone = replace(world.views.explanations[key], wants=(), water_level=None, target=3_000)
    world.views.explanations[key] = alone

    *_, last, certificate = run("explain", "orders").stdout.splitlines()

    assert certificate.strip().startswith("All together hold at most 3,000/s of 3,000/s now")
    assert last == ("  No broker takes part. Limit of the cluster: 3,000/s. On its way to 3,000/s.")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("explain", "none"), 1),
        (("explain", "orders", "--broker", "broker-9"), 1),
        (("explain", "orders", "--dimension", "speed"), 2),
        (("top", "--dimension", "speed"), 2),
        (("top", "--once", "none"), 1),
        (("top", "--interval", "0"), 2),
        (("top", "--interval", "nan"), 2),
        (("top", "--interval", "inf"), 2),
        (("explain",), 2),
    ],
)
def test_exit_codes(run: Run, words: tuple[str, ...], code: int) -> None:
    """A missing thing is 1, an impossible request is 2."""
    assert run(*words).exit_code == code


@pytest.mark.parametrize("words", [("status",), ("explain", "orders"), ("top", "--once")])
def test_json_is_valid_whatever_the_terminal(run: Run, words: tuple[str, ...]) -> None:
    """Machines read the same from a narrow terminal."""
    narrow = run(*words, "--json", columns=20)

    assert narrow.exit_code == 0
    assert json.loads(narrow.stdout) == json.loads(run(*words, "--json").stdout)


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize(
    "words", [("groups", "list"), ("status",), ("explain", "orders"), ("top", "--once")]
)
def test_tables_fit_the_terminal(run: Run, words: tuple[str, ...], columns: int) -> None:
    """No line is longer than the terminal, and nothing is cut off."""
    shown = run(*words, columns=columns)

    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= columns
    assert "…" not in shown.stdout


def test_top_is_the_sketch(run: Run) -> None:
    """State, demand, limit, admitted and share of fair, with a sum for the cluster."""
    shown = run("top", "--once").stdout

    assert shown.startswith("group orders: 3,000/s publish messages\n")
    first = ["broker-1", "ACTIVE", "1,001", "1,000", "1,001", "100.0", "%", "▁"]
    second = ["broker-2", "heard", ">", "2,000", "2,000", "1,990", "99.5", "%", "█"]
    assert cells(shown, "broker-1")[:-1] == first[:-1]
    assert cells(shown, "broker-2")[:-1] == second[:-1]
    assert cells(shown, "cluster") == ["cluster", ">", "2,991", "3,000", "2,991"]


def test_top_leaves_out_the_quiet_groups(run: Run) -> None:
    """A screen holds five groups; the rest is counted."""
    for number in range(6):
        run("groups", "create", f"quiet-{number}")

    shown = run("top", "--once").stdout

    assert "2 more groups; name one to see it." in shown
    run("groups", "delete", "quiet-0")
    assert "1 more group; name one to see it." in run("top", "--once").stdout


def test_top_of_nothing(run: Run) -> None:
    """No groups is said, not drawn."""
    run("groups", "delete", "orders")

    assert run("top", "--once").stdout == "There are no resource groups.\n"


def test_top_shows_brokers_of_a_group_without_limits(world: World, transport: InProcess) -> None:
    """Such a group has no decision, so its demand is the admitted rate."""
    world.views.rows = (usage_row("broker-1", 500, None, 0),)
    key = next(key for key in world.views.explanations if key[2] == "broker-1")
    world.views.explanations[key] = replace(world.views.explanations[key], wants=())

    with GlobalOptions(
        "http://127.0.0.1", None, as_json=False, transport=transport
    ).connect() as client:
        frame = read_frame(client, "orders", None)

    want = frame.groups[0].wants[0]
    assert (want.wants, want.admitted, want.limit) == (500, 500, None)


@pytest.mark.parametrize(
    ("wants", "weight", "level", "fair"),
    [
        (100, 1, 50, 50),
        (10, 1, 50, 10),
        (None, 1, 50, 50),
        (10, 1, None, 10),
        (None, 1, None, None),
        (100, 3, 50, 100),
        (None, 3, 50, 150),
    ],
)
def test_fair_share(wants: int | None, weight: int, level: int | None, fair: int | None) -> None:
    """A broker's fair share is its demand, cut at the water level times its weight."""
    want = WantView("b", wants, 0, weight, 0, None, 0, 0)

    assert fair_share(want, level) == fair


@pytest.mark.parametrize(
    ("rates", "line"),
    [
        ([], ""),
        ([0, 0], "▁▁"),
        ([5], "█"),
        ([0, 50, 100], "▁▅█"),
        ([100] * 59, "█" * 10),
    ],
)
def test_spark_line(rates: list[int], line: str) -> None:
    """It has at most ten bars, the highest one full."""
    assert spark_line(rates) == line


def test_history_is_bounded(transport: InProcess) -> None:
    """The command keeps thirty seconds, however long it runs."""
    history = RateHistory(samples=3)
    with GlobalOptions(
        "http://127.0.0.1", None, as_json=False, transport=transport
    ).connect() as client:
        frame = read_frame(client, None, None)
    for _ in range(9):
        history.add(frame)

    assert history.spark("orders", "broker-2") == "███"
    assert history.spark("orders", "broker-9") == ""


def test_states_of_brokers(transport: InProcess) -> None:
    """Only the answering sidecar's state is known; of the others, when they were heard."""
    with GlobalOptions(
        "http://127.0.0.1", None, as_json=False, transport=transport
    ).connect() as client:
        health = client.health()
    silent = replace(health.members[1], broker="broker-3", silent=True)
    joining = replace(health.members[1], broker="broker-4", report_age_ns=None)
    seen = replace(health, members=(*health.members, silent, joining))

    states = [state_of(f"broker-{number}", seen) for number in range(1, 6)]

    assert states == ["ACTIVE", "heard", "silent", "joining", "gone"]

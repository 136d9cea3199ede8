"""Names that would command the terminal are shown as text, by whichever way they leave the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from rich.text import Text

from coordinator.cli.consoles import console, table
from coordinator.cli.output import echo, print_json
from tests.cli.conftest import Run

CLI = Path(__file__).parents[2] / "coordinator" / "cli"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\r\nbroker-9 is ACTIVE"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\x0d\x0abroker-9 is ACTIVE"


def controls(text: str) -> list[str]:
    """Letters that a terminal acts upon, apart from line feeds."""
    return [letter for letter in text if not (letter.isprintable() or letter == "\n")]


def test_a_table_a_message_and_a_styled_text_show_escapes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes one line: a name with a line feed makes no row of its own."""
    monkeypatch.setenv("COLUMNS", "200")
    shown = table(["topic", HOSTILE])
    shown.add_row(HOSTILE, "x")
    console().print(shown)
    console().print(HOSTILE)
    console().print(Text(HOSTILE.replace("\n", "")))
    echo(HOSTILE)
    echo(HOSTILE, err=True)
    print_json({HOSTILE: HOSTILE})

    out, err = capsys.readouterr()
    assert not controls(out + err)
    assert out.count(SHOWN) == 3
    assert "evil\\x0d\nbroker-9" in err, "lines of one's own stay lines"


class Liar(httpx.BaseTransport):
    """A sidecar, or what poses as one, whose every answer is hostile."""

    def __init__(self, answers: dict[str, object]) -> None:
        self._answers = answers

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer by the path's beginning."""
        for path, answer in self._answers.items():
            if request.url.path.startswith(path):
                return httpx.Response(200, json=answer)
        return httpx.Response(404, json={"reason": HOSTILE})


RATES = dict.fromkeys(
    ("publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes"), 1
)
USAGE = {
    "group": HOSTILE,
    "limits": RATES,
    "law": HOSTILE,
    "overshootPolicy": HOSTILE,
    "configurationVersion": 1,
    "brokers": [
        {
            "broker": HOSTILE,
            "admitted": RATES,
            "limits": RATES,
            "throttledShare": RATES,
            "participants": 1,
            "topics": 1,
            "reportAgeMillis": 1,
        }
    ],
}
HEALTH = {
    "broker": HOSTILE,
    "incarnation": 1,
    "state": HOSTILE,
    "degradations": [{"name": HOSTILE, "reason": HOSTILE}],
    "ready": False,
    "members": [
        {"broker": HOSTILE, "incarnation": 1, "apiAddress": HOSTILE, "reportAgeMillis": None}
    ],
    "round": 1,
    "reportsDropped": {HOSTILE: 3},
    "disagreements": [],
    "foreignReports": {HOSTILE: 3},
    "announcementsCapped": {HOSTILE: 3},
    "failedTasks": [],
    "recording": {
        "recording": False,
        "reason": HOSTILE,
        "failures": 1,
        "rowsWritten": 1,
        "rowsWaiting": 1,
        "rowsDropped": 1,
    },
}
CONDITION = {
    "severity": HOSTILE,
    "condition": HOSTILE,
    "subject": HOSTILE,
    "sentence": HOSTILE,
    "remedy": HOSTILE,
}
ANSWERS: dict[str, object] = {
    "/quota/v1/health": HEALTH,
    "/quota/v1/usage": [USAGE],
    "/quota/v1/conditions": [CONDITION],
    "/quota/v1/catalogue/faults": {HOSTILE: HOSTILE},
    "/quota/v1/log-level": {"level": HOSTILE},
}


@pytest.mark.parametrize(
    "words", [("status",), ("top", "--once"), ("conditions",), ("doctor",), ("log-level",)]
)
def test_commands_show_what_a_sidecar_says_as_text(run: Run, words: tuple[str, ...]) -> None:
    """Names, states, degradations, conditions, faults, and what the doctor makes of them."""
    done = run(*words, carrier=Liar(ANSWERS), columns=400)

    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    assert not controls(done.output)
    assert r"\x1b" in done.output


@pytest.mark.parametrize("words", [("explain", "orders"), ("groups", "list"), ("operations",)])
def test_the_reason_of_a_refusal_is_shown_as_text(run: Run, words: tuple[str, ...]) -> None:
    """On standard error, too."""
    done = run(*words, carrier=Liar({}))

    assert done.exit_code == 1
    assert not controls(done.output)
    assert r"\x1b]0;owned\x07" in done.output


def test_json_is_exact_and_harmless(run: Run) -> None:
    """Machines get the very names, in letters of ASCII."""
    done = run("conditions", "--json", carrier=Liar(ANSWERS))

    assert json.loads(done.stdout)[0]["sentence"] == HOSTILE
    assert done.stdout.isascii()
    assert not controls(done.stdout)


def test_nothing_else_of_the_command_line_writes_to_the_terminal() -> None:
    """`output` and `consoles` are the places, so what is added later cannot forget to escape."""
    others = [path for path in CLI.glob("*.py") if path.name not in ("output.py", "consoles.py")]
    assert others
    for path in others:
        ways = re.findall(
            r"\btyper\.(?:s?echo|style)|(?<![.\w])print\(|sys\.std\w+", path.read_text()
        )
        made = re.findall(r"(?<![.\w])Console\(", path.read_text())
        assert not [*ways, *made], path.name

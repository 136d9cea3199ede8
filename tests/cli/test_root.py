"""The global options, and what happens when the admin API cannot be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from threading import Event

import httpx
import pytest

from coordinator.cli import client, whole_answers
from coordinator.cli.client import AdminClient
from coordinator.cli.failures import CommandFailed
from deploy.local.ports import free_block
from tests.cli.conftest import InProcess, Run


def answering(response: httpx.Response) -> httpx.MockTransport:
    """Something that gives this answer to every request."""
    return httpx.MockTransport(lambda _: response)


def failing(error: httpx.HTTPError) -> httpx.MockTransport:
    """A network on which every request fails."""

    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    return httpx.MockTransport(fail)


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "groups", "list"),
        ("groups", "--json", "list"),
        ("groups", "list", "--json"),
        ("groups", "list", "--api", "http://127.0.0.1:1", "--json"),
        ("--api=http://127.0.0.1:1", "groups", "list", "--json"),
    ],
)
def test_global_options_may_stand_anywhere(run: Run, words: tuple[str, ...]) -> None:
    """People write them last as often as first."""
    listed = run(*words)

    assert (listed.exit_code, json.loads(listed.stdout)[0]["name"]) == (0, "orders")


def test_api_and_token_are_sent(run: Run, transport: InProcess) -> None:
    """The token goes as Bearer, to the host that was named."""
    run("groups", "list", "--api", "http://sidecar-2:9000/", "--token", "abc")

    request = transport.requests[-1]
    assert request.headers["authorization"] == "Bearer abc"
    assert request.url == "http://sidecar-2:9000/quota/v1/groups"


def test_api_and_token_come_from_the_environment(
    run: Run, transport: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PULSAR_QUOTA_API and PULSAR_QUOTA_TOKEN stand in for the options."""
    monkeypatch.setenv("PULSAR_QUOTA_API", "http://elsewhere:1")
    monkeypatch.setenv("PULSAR_QUOTA_TOKEN", "xyz")

    run("groups", "list")

    request = transport.requests[-1]
    assert (request.url.host, request.headers["authorization"]) == ("elsewhere", "Bearer xyz")


def test_after_two_dashes_nothing_is_an_option(run: Run) -> None:
    """Even a group called --json can be named."""
    asked = run("groups", "get", "--", "--json")

    assert (asked.exit_code, asked.stderr) == (1, "ResourceGroup does not exist\n")


@pytest.mark.parametrize(
    "words",
    [
        ("groups", "list", "--api"),
        ("--token",),
        ("groups", "list", "--api", "nonsense"),
        ("groups", "list", "--api", "http://a..b"),
    ],
)
def test_unusable_options_are_wrong_use(run: Run, words: tuple[str, ...]) -> None:
    """An option without a value, and a URL that is none."""
    carrier = httpx.HTTPTransport()

    wrong = run(*words, carrier=carrier)

    assert wrong.exit_code == 2
    assert "--api" in wrong.stderr or "--token" in wrong.stderr


@pytest.mark.parametrize(
    "words", [("groups", "get"), ("operations",), ("groups", "create", "x", "--law")]
)
def test_an_argument_that_is_not_utf_8_is_wrong_use(
    run: Run, transport: InProcess, words: tuple[str, ...]
) -> None:
    """It could not be sent."""
    wrong = run(*words, "caf\udce9")

    assert (wrong.exit_code, transport.requests) == (2, [])
    assert r"caf\udce9 is not written in UTF-8" in wrong.stderr


def test_the_api_is_asked_directly_as_a_sidecar_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names is for other places; it would get the token, too."""
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    api = f"http://127.0.0.1:{free_block()[0]}"

    with AdminClient(api) as asking, pytest.raises(CommandFailed) as failure:
        asking.health()

    assert str(failure.value).startswith(f"Cannot reach {api} (connection refused). ")


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ReadTimeout("late"), httpx.ReadError("reset")]
)
def test_unreachable_api_is_one_line(run: Run, error: httpx.HTTPError) -> None:
    """It names the URL and what to do, and shows no traceback."""
    failed = run("status", carrier=failing(error))

    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr.count("\n") == 1
    assert "http://127.0.0.1:8087" in failed.stderr
    assert "--api or PULSAR_QUOTA_API" in failed.stderr


def test_a_late_or_endless_answer_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the URL and what to do, and the command ends with 1."""
    monkeypatch.setattr(client, "_WITHIN_S", 0.2)
    monkeypatch.setattr(whole_answers, "ANSWER_MAX", 1 << 20)
    hung_up = Event()

    def hang(_: httpx.Request) -> httpx.Response:
        hung_up.wait(30.0)
        return httpx.Response(200)

    late = run("status", carrier=httpx.MockTransport(hang))
    hung_up.set()
    endless = run("status", carrier=answering(httpx.Response(200, content=bytes((1 << 20) + 1))))

    assert (late.exit_code, endless.exit_code) == (1, 1)
    assert late.stderr == (
        "http://127.0.0.1:8087 gave no whole answer within 0.2 s. Is the sidecar running there? Name "
        "another one with --api or PULSAR_QUOTA_API.\n"
    )
    assert endless.stderr == (
        "http://127.0.0.1:8087 gave an answer of more than 1 MiB. Name a sidecar's address, "
        "host:port of admin_listen, with --api or PULSAR_QUOTA_API.\n"
    )


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, text="[" * 100_000),
        httpx.Response(200, json=7),
        httpx.Response(404, text="<html>"),
        httpx.Response(500, json=[]),
        httpx.Response(500, text="[" * 100_000),
        httpx.Response(302),
    ],
)
def test_something_else_answers(run: Run, response: httpx.Response) -> None:
    """A proxy or a broker at that address is recognised as what it is not; a page of groups is a list."""
    failed = run("groups", "list", carrier=answering(response))

    assert failed.exit_code == 1
    assert "is not the admin API of a sidecar" in failed.stderr


def test_a_list_whose_pages_never_end_is_no_sidecars(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page names itself as the next one; no more than the bound are asked for."""
    monkeypatch.setattr(client, "PAGES_MAX", 20)
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, json=[], headers={"link": f'<{request.url}>; rel="next"'})

    failed = run("groups", "list", carrier=httpx.MockTransport(answer))

    assert (failed.exit_code, failed.stdout, len(asked)) == (1, "", 20)
    assert "is not the admin API of a sidecar" in failed.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("groups", "delete", "orders"),
        ("groups", "attach", "orders", "--namespace", "shop/orders"),
        ("groups", "detach", "--namespace", "shop/orders"),
    ],
)
def test_a_broker_is_not_taken_for_a_sidecar(run: Run, words: tuple[str, ...]) -> None:
    """It has the same paths below /admin/v2, and would change a group of its own."""
    asked: list[str] = []

    def broker(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        ours = request.url.path.startswith("/quota/")
        return httpx.Response(404, text="<html>") if ours else httpx.Response(204)

    failed = run(*words, carrier=httpx.MockTransport(broker))

    assert (failed.exit_code, failed.stdout, set(asked)) == (1, "", {"GET"})
    assert "is not the admin API of a sidecar" in failed.stderr


HEALTH = {
    "broker": "broker-1",
    "incarnation": 7,
    "state": "ACTIVE",
    "ready": True,
    "degradations": [],
    "round": 3,
    "members": [],
    "reportsDropped": {},
}


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"members": "all"}, "str in place of list"),
        ({"members": [["broker-1"]]}, "list in place of dict"),
        ({"reportsDropped": []}, "list in place of dict"),
        ({"round": "third"}, "str in place of int"),
        ({"round": None}, "NoneType in place of int"),
        ({"degradations": [{"name": "ASLEEP", "reason": "night"}]}, "'ASLEEP'"),
    ],
)
def test_an_answer_of_the_wrong_form_is_one_line(
    run: Run, lie: dict[str, object], said: str
) -> None:
    """It names the URL, the difference and what to do, and shows no traceback."""
    failed = run("status", carrier=answering(httpx.Response(200, json=HEALTH | lie)))

    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr == (
        "http://127.0.0.1:8087 answers in a form that this release does not know "
        f"({said}). Use the command of that sidecar's release.\n"
    )


def test_refused_token(run: Run) -> None:
    """The message says how to send a token."""
    response = httpx.Response(401, json={"reason": "Authentication required"})

    failed = run("groups", "list", carrier=answering(response))

    assert failed.exit_code == 1
    assert failed.stderr.startswith("Authentication required. Send a token with --token")


@pytest.mark.parametrize("token", ["s3cret\n", "s3cret x", "s3cr\u00e9t", "\ts3cret"])
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("groups", "list", "--token"), "--token or PULSAR_QUOTA_TOKEN: a token has neither"),
        (
            ("import", "--from", "http://p", "--source-token"),
            "--source-token or PULSAR_TOKEN: a tok",
        ),
    ],
)
def test_a_token_that_is_none_is_told_and_not_repeated(
    run: Run, transport: InProcess, words: tuple[str, ...], named: str, token: str
) -> None:
    """The line feed of a file is the most frequent one; no request is sent."""
    wrong = run(*words, token)

    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith(named)
    assert "s3cr" not in wrong.stderr
    assert not transport.requests


def test_refused_role(run: Run) -> None:
    """The token is good, so the message asks for another role's."""
    response = httpx.Response(403, json={"reason": "Role bob is no super-user"})

    failed = run("groups", "list", carrier=answering(response))

    assert failed.exit_code == 1
    assert failed.stderr == (
        "Role bob is no super-user. --token or PULSAR_QUOTA_TOKEN takes the token of another role.\n"
    )


def test_large_request_is_wrong_use(run: Run) -> None:
    """413 will be 413 for ever."""
    response = httpx.Response(413, json={"reason": "The body is larger"})

    assert run("groups", "list", carrier=answering(response)).exit_code == 2


@pytest.mark.parametrize(
    "words", [("--help",), ("groups", "-h"), ("groups", "create", "--help"), ("top", "--help")]
)
def test_help(run: Run, words: tuple[str, ...]) -> None:
    """Help is an answer, not a failure."""
    shown = run(*words)

    assert shown.exit_code == 0
    assert "pulsar-quota" in shown.stdout


def into(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which PROGRAM is the command, as a process of its own."""
    line = command.replace("PROGRAM", f"{sys.executable} -m coordinator.cli")
    return subprocess.run(
        ["bash", "-c", line],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60.0,
    )


@pytest.mark.slow
def test_a_full_disk_is_one_line() -> None:
    """The device takes nothing, as a disk without room."""
    full = into("PROGRAM config example > /dev/full")

    told = "The output cannot be written: No space left on device.\n"
    assert (full.returncode, full.stderr) == (1, told)


@pytest.mark.slow
def test_a_closed_output_takes_everything() -> None:
    """The exit code is the answer then."""
    closed = into("PROGRAM doctor --native http://127.0.0.1:1 >&-")

    assert (closed.returncode, closed.stderr) == (1, "")


@pytest.mark.slow
def test_a_letter_that_the_output_lacks_is_shown_as_its_number() -> None:
    """Terminals and files of other encodings than UTF-8 get all of the rest."""
    shown = into("PROGRAM doctor --native http://127.0.0.1:1/\u0142", PYTHONIOENCODING="latin-1")

    assert (shown.returncode, shown.stderr) == (1, "")
    assert r"http://127.0.0.1:1/\u0142/admin/v2/brokers" in shown.stdout

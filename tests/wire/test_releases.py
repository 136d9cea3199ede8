"""Sidecars of different releases work together, on the bus and through the store.

``saved/RELEASE.json`` has the bytes that a release writes for the values of `samples`. Every saved
release must be read by this code for ever, and what this code writes is what is saved for its own
release, so that no change of the wire goes unnoticed. When it is changed on purpose, and that is
told in a new release, its bytes are saved beside the old ones::

    python -m tests.wire.test_releases RELEASE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coordinator.runtime.release import RELEASE
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.audit import decode_audit_entry, encode_audit_entry
from coordinator.wire.documents import (
    MemberDocument,
    decode_attachment,
    decode_escrow,
    decode_group,
    decode_member,
    decode_topic_limit,
    encode_attachment,
    encode_escrow,
    encode_group,
    encode_member,
    encode_topic_limit,
)
from coordinator.wire.operations import decode_operation, encode_operation
from coordinator.wire.reports import decode, encode
from tests.wire import samples

SAVED = Path(__file__).parent / "saved"


@dataclass(frozen=True)
class Form:
    """One kind of bytes: the value that the sample is, how it is written and how it is read."""

    value: Any
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


def _report(value: Any) -> Form:
    return Form(value, encode, lambda data: decode(data, samples.NAMES))


REPORTS = {
    "report by name": _report(samples.BY_NAME),
    "report by version": _report(samples.BY_VERSION),
    "farewell": _report(samples.FAREWELL),
}
DOCUMENTS = {
    "group": Form(samples.GROUP, encode_group, lambda data: decode_group("orders", data, 17)),
    "plain group": Form(
        samples.PLAIN_GROUP, encode_group, lambda data: decode_group("plain", data, 1)
    ),
    "attachment": Form("orders", encode_attachment, decode_attachment),
    "member": Form(
        MemberDocument("http://one:8087"),
        lambda member: encode_member(member, "0.1.0"),
        decode_member,
    ),
    "member that signs": Form(
        MemberDocument("http://one:8087", bytes(range(32))),
        lambda member: encode_member(member, "0.1.0"),
        decode_member,
    ),
    # The saved samples keep the name of earlier releases.
    "ledger": Form(samples.ESCROW, encode_escrow, lambda data: decode_escrow("orders", data, 3, 5)),
    "topic limit": Form(
        samples.TOPIC_LIMITS,
        lambda limits: encode_topic_limit(samples.TOPIC, limits),
        decode_topic_limit,
    ),
    "operation": Form(
        samples.OPERATION,
        encode_operation,
        lambda data: decode_operation(samples.OPERATION.operation.id, None, data),
    ),
    "audit entry": Form(
        samples.ENTRY,
        lambda entry: encode_audit_entry(entry.subject, entry.before, entry.after, entry.origin),
        lambda data: decode_audit_entry(samples.ENTRY.id, samples.ENTRY.at_ms, data),
    ),
}
FORMS = REPORTS | DOCUMENTS

#: A field number that no release uses, as a number and as bytes.
UNKNOWN_NUMBER = bytes.fromhex("f8612a")
UNKNOWN_BYTES = bytes.fromhex("fa61036e6577")


def saved(release: str) -> dict[str, bytes]:
    """The bytes of a release."""
    entries = json.loads((SAVED / f"{release}.json").read_text())
    return {name: bytes.fromhex(data) for name, data in entries.items()}


RELEASES = sorted(file.stem for file in SAVED.glob("*.json"))
EVERYTHING = [(release, name) for release in RELEASES for name in saved(release)]


def alike(one: Any, other: Any) -> bool:
    """Groups of a report that are told in columns are a mapping's view: compared by their entries."""
    if not hasattr(one, "groups"):
        return bool(one == other)
    told = [{entry.group: entry for entry in report.groups} for report in (one, other)]
    heads = [encode(_without_groups(report)) for report in (one, other)]
    return bool(told[0] == told[1] and heads[0] == heads[1])


def _without_groups(report: Any) -> Any:
    return type(report)(
        **{name: getattr(report, name) for name in report.__dataclass_fields__} | {"groups": ()}
    )


@pytest.mark.parametrize(("release", "name"), EVERYTHING)
def test_what_a_release_wrote_is_read(release: str, name: str) -> None:
    """An old sidecar beside a new one, and a new one that starts on an old one's store."""
    form = FORMS[name]

    assert alike(form.read(saved(release)[name]), form.value)


@pytest.mark.parametrize("name", FORMS)
def test_what_is_written_is_what_is_saved_of_this_release(name: str) -> None:
    """The wire changes on purpose only."""
    form = FORMS[name]

    assert form.write(form.value) == saved(RELEASE)[name]


@pytest.mark.parametrize("unknown", [UNKNOWN_NUMBER, UNKNOWN_BYTES])
@pytest.mark.parametrize(("release", "name"), [each for each in EVERYTHING if each[1] in REPORTS])
def test_a_report_of_a_newer_release_is_read_without_what_is_new(
    release: str, name: str, unknown: bytes
) -> None:
    """Fields that this release does not know stand at the end of every message, nested ones included."""
    form = FORMS[name]
    message = pb.ResourceUsageInfo.FromString(saved(release)[name])
    for row in message.usageMap:
        row.MergeFromString(unknown)
        row.publish.MergeFromString(unknown)
    for statement in message.escrow:
        statement.MergeFromString(unknown)

    assert alike(form.read(message.SerializeToString() + unknown), form.value)


@pytest.mark.parametrize(("release", "name"), [each for each in EVERYTHING if each[1] in DOCUMENTS])
def test_a_document_of_a_newer_release_is_read_without_what_is_new(release: str, name: str) -> None:
    """Fields can be added without a new schema."""
    document = json.loads(saved(release)[name])
    newer = {**document, "addedLater": {"deep": [1, 2]}, "andAnother": None}

    assert FORMS[name].read(json.dumps(newer).encode()) == FORMS[name].value


#: What came after the first reports that were ever sent; an older release leaves it out.
OPTIONAL = (
    *("complete", "learning", "leaving", "asks", "escrow", "waiting", "busSilent"),
    *("answeredIncarnations", "answeredSequences"),
    *("definitionsDigest", "membersDigest", "usageDigest"),
)


def test_a_report_of_an_older_release_that_lacks_what_is_newer_is_read() -> None:
    """Absent is what the sender does not say, for every field beyond those that every report has."""
    message = pb.ResourceUsageInfo.FromString(saved(RELEASE)["report by name"])
    for field in OPTIONAL:
        message.ClearField(field)
    for row in message.usageMap:
        for field in ("messagesCeiling", "bytesCeiling", "messageSize", "topics"):
            row.publish.ClearField(field)

    report = decode(message.SerializeToString(), {})

    assert (report.view, report.waiting, report.bus_silent) == (None, False, False)
    assert [entry.group for entry in report.groups] == ["orders", "returns"]


def _save(release: str) -> None:
    SAVED.mkdir(exist_ok=True)
    entries = {name: form.write(form.value).hex() for name, form in FORMS.items()}
    (SAVED / f"{release}.json").write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    _save(sys.argv[1])

"""The audit of what the project stands on: what pip-audit's report comes to."""

from __future__ import annotations

from typing import Any

from deploy.audit import judge

SOUND = {"name": "kazoo", "version": "2.11.0", "vulns": []}
SKIPPED = {"name": "numpy", "skip_reason": "could not be audited"}
HOLE = {
    "name": "aiohttp",
    "version": "3.0",
    "vulns": [
        {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["3.1"]},
        {"id": "PYSEC-2", "aliases": [], "fix_versions": []},
    ],
}


def report(*packages: dict[str, Any]) -> dict[str, Any]:
    """As pip-audit writes it."""
    return {"dependencies": list(packages), "fixes": []}


def test_no_known_hole_ends_well() -> None:
    """All were asked about."""
    audit = judge(report(SOUND))

    assert audit.exit_code == 0
    assert list(audit.lines()) == ["no hole is known; packages asked about: 1"]


def test_a_known_hole_is_told_with_what_mends_it() -> None:
    """Packages without an answer do not hide it."""
    audit = judge(report(SOUND, SKIPPED, HOLE))

    assert audit.exit_code == 1
    assert list(audit.lines()) == [
        "aiohttp 3.0: PYSEC-1, CVE-1; mended in 3.1",
        "aiohttp 3.0: PYSEC-2; mended in no version yet",
    ]


def test_a_package_that_nobody_knows_is_not_taken_for_sound() -> None:
    """pip-audit ends well when the service answers for nothing."""
    audit = judge(report(SOUND, SKIPPED))

    assert audit.exit_code == 3
    assert next(audit.lines()).startswith(
        "NOT CHECKED: PyPI's vulnerability service answered for 1 of 2"
    )
    assert judge(report()).exit_code == 3

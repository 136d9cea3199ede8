"""``make audit``: known holes in exactly the versions that the project is tested with.

pip-audit asks PyPI's vulnerability service about every line of ``constraints.txt``. It calls a package
that the service does not answer for skipped, and ends well; here that is an outcome of its own, since
nothing is known about such a package. Ends with 0 if no hole is known, with 1 if one is, with 3 if the
service could not be asked about every package and no hole is known in the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class VulnerabilityAnswer:
    """The service's answer.

    Attributes:
        holes: a line for each known hole: package, version, its names, and what mends it.
        asked: how many packages it answered for.
        skipped: the packages that it did not answer for.
    """

    holes: tuple[str, ...]
    asked: int
    skipped: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 none known, 1 a hole, 3 not everything was asked about."""
        if self.holes:
            return 1
        return 3 if self.skipped or not self.asked else 0

    def lines(self) -> Iterator[str]:
        """The outcome for people."""
        yield from self.holes
        if self.exit_code == 3:
            yield (
                f"NOT CHECKED: PyPI's vulnerability service answered for {self.asked} of "
                f"{self.asked + len(self.skipped)} packages, so nothing is known of the others; "
                "is it in reach of this machine?"
            )
        elif not self.holes:
            yield f"no hole is known; packages asked about: {self.asked}"


def judge(report: Any) -> VulnerabilityAnswer:
    """Read pip-audit's JSON report."""
    holes, skipped = [], []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            skipped.append(package["name"])
            continue
        for hole in package["vulns"]:
            names = ", ".join([hole["id"], *hole.get("aliases", ())])
            mended = " or ".join(hole["fix_versions"]) or "no version yet"
            holes.append(f"{package['name']} {package['version']}: {names}; mended in {mended}")
    asked = len(report["dependencies"]) - len(skipped)
    return VulnerabilityAnswer(tuple(holes), asked, tuple(skipped))


def main() -> int:
    """Ask, and say what came of it."""
    command = [
        *(sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip"),
        *("--progress-spinner", "off", "--format", "json"),
        *("--requirement", str(ROOT / "constraints.txt")),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    try:
        audit = judge(json.loads(done.stdout))
    except json.JSONDecodeError:
        print(done.stderr.strip(), file=sys.stderr)
        print("NOT CHECKED: PyPI's vulnerability service could not be asked", file=sys.stderr)
        return 3
    print(*audit.lines(), sep="\n", file=sys.stderr if audit.exit_code else sys.stdout)
    return audit.exit_code


if __name__ == "__main__":
    sys.exit(main())

"""The command line: ``python -m tests.mutants``: mistakes that tests notice, and those that they do not.

mutmut makes the mutants, finds the tests that reach each one, and runs those until one fails. Its
configuration is in pyproject.toml. It works in ``mutants/``, where it keeps what it has found out.
Exit code 0 if at least ``--least`` percent were noticed, 1 otherwise.
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
from pathlib import Path

from mutmut.__main__ import create_mutants
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir

from tests.mutants.summary import NOTICED, Mutation, drawn, path_of, pattern_of, read_diff, summary

_MUTMUT = Path(sys.executable).with_name("mutmut")


def main() -> int:
    """Read the command line, try the mutants and print what became of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="coordinator", help="a folder or a module")
    parser.add_argument(
        "--sample", type=int, default=200, help="number of mutants, drawn at random"
    )
    parser.add_argument("--seed", type=int, default=1, help="draws the same ones again")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at a time")
    parser.add_argument("--least", type=float, default=0, help="percent that must be noticed")
    options = parser.parse_args()
    _generate(options.jobs)
    names = fnmatch.filter(_outcomes(), pattern_of(options.only))
    if not names:
        parser.error(f"--only {options.only}: no mutants there; see only_mutate in pyproject.toml")
    chosen = drawn(names, options.sample, options.seed)
    _say(f"{len(chosen)} of {len(names)} mutants, drawn by seed {options.seed}")
    subprocess.run([_MUTMUT, "run", "--max-children", str(options.jobs), *chosen], check=True)
    found = _outcomes()
    tried = {name: found[name] for name in chosen}
    for line in summary(tried, _read):
        _say(line)
    noticed = sum(outcome in NOTICED for outcome in tried.values())
    return 0 if 100 * noticed >= options.least * len(tried) else 1


def _generate(jobs: int) -> None:
    """Make the mutants of all modules that have changed; ``mutmut run`` finds them made."""
    set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(jobs)


def _outcomes() -> dict[str, str]:
    """Return what is known of every mutant, by name."""
    lines = _mutmut("results", "--all", "true").splitlines()
    return dict(line.strip().rsplit(": ", 1) for line in lines if ": " in line)


def _read(name: str) -> Mutation:
    path = path_of(name)
    return read_diff(path, path.read_text(encoding="utf-8"), name, _mutmut("show", name))


def _mutmut(*words: str) -> str:
    return subprocess.run([_MUTMUT, *words], check=True, capture_output=True, text=True).stdout


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

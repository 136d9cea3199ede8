"""``make check-release``: the wheel and the source distribution install and run in a clean environment.

`build` makes the wheel from the unpacked source distribution, so a file that is missing in one is missing
in both. Each is installed into an environment that has nothing else, and must then, away from this
checkout, print the example configuration and hold every file of the dashboard. Ends with 1 at the first
step that fails; the files stay in ``build/release``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
RELEASE = ROOT / "build" / "release"

_DASHBOARD = (
    "import admin_api, os; print(*sorted(os.listdir(admin_api.__path__[0] + '/dashboard')))"
)


class Broken(Exception):
    """A step failed; the message is the command and its output."""


def main() -> int:
    """Build both, install each, and try it."""
    try:
        wheel, source = build()
        with tempfile.TemporaryDirectory() as folder:
            environment = Path(folder) / "clean"
            venv.create(environment, with_pip=True)
            install(environment, wheel, "--constraint", str(ROOT / "constraints.txt"))
            try_out(environment)
            print(f"installs and runs: {wheel.name}")
            install(environment, source, "--force-reinstall", "--no-deps")
            try_out(environment)
            print(f"installs and runs: {source.name}")
    except Broken as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def build() -> tuple[Path, Path]:
    """Return the wheel and the source distribution, made anew."""
    shutil.rmtree(RELEASE, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(RELEASE), str(ROOT), where=ROOT)
    (wheel,) = RELEASE.glob("*.whl")
    (source,) = RELEASE.glob("*.tar.gz")
    return wheel, source


def install(environment: Path, package: Path, *options: str) -> None:
    """Install a package by the environment's own pip."""
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    _run(*pip, *options, str(package), where=environment)


def try_out(environment: Path) -> None:
    """Run the installed command and look for the installed data.

    Raises:
        Broken: a command fails, or answers otherwise than this checkout.
    """
    example = _run(
        str(environment / "bin" / "pulsar-quota"), "config", "example", where=environment
    )
    if example != (ROOT / "deploy" / "example" / "sidecar.toml").read_text(encoding="utf-8"):
        raise Broken("the installed command prints another example configuration")
    found = _run(str(environment / "bin" / "python"), "-c", _DASHBOARD, where=environment).split()
    wanted = {path.name for path in (ROOT / "admin_api" / "dashboard").iterdir()}
    if missing := wanted.difference(found):
        raise Broken(f"not installed of the dashboard: {', '.join(sorted(missing))}")


def _run(*command: str, where: Path) -> str:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

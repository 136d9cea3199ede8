"""Programs for which /etc/hosts is another file: in a mount namespace of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

NAME_6: Final = "ip6-localhost"
"""The name of ::1 on Debian."""

WITH_IPV6: Final = f"127.0.0.1 localhost\n::1 {NAME_6}\n"
WITHOUT_IPV6: Final = "127.0.0.1 localhost\n"

_RUN = 'mount --bind "$0" /etc/hosts && exec "$@"'


def with_hosts(names: str, directory: Path, command: Sequence[str]) -> list[str]:
    """Return the command that runs another one, for which these lines are /etc/hosts."""
    file = directory / "hosts"
    file.write_text(names)
    own = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    return ["unshare", *own, "sh", "-c", _RUN, str(file), *command]

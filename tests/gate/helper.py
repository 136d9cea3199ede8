"""The gate with and without its compiled helper, which is built from its source for the tests."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from coordinator.gate.engine.delayed import DelayingRequests
from coordinator.gate.engine.requests import ClientRequests
from coordinator.gate.protocol import runs, stream

SOURCE = Path(runs.__file__).with_name("_runs.c")


Scan = Callable[[bytes, int, int], Any]


@cache
def built(name: str = "scan") -> Scan:
    """A function of the helper, from the very source that stands beside the code under test."""
    scan: Scan = getattr(_module(), name)
    return scan


@cache
def _module() -> ModuleType:
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory, "_runs.so")
        compiler = shlex.split(sysconfig.get_config_var("CC"))
        include = f"-I{sysconfig.get_path('include')}"
        warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
        options = ("-O2", "-shared", "-fPIC", *warnings, include, "-o", str(target))
        subprocess.run([*compiler, *options, str(SOURCE)], check=True)
        spec = importlib.util.spec_from_file_location("coordinator.gate.protocol._runs", target)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@contextmanager
def deciding(by_runs: bool) -> Iterator[None]:
    """Inside, streams decide runs at once, or every frame on its own."""
    find_run = built() if by_runs else runs._find_none
    prompt = built("scan_prompt") if by_runs else runs._find_none
    one = built("scan_one") if by_runs else runs._find_none
    prompt_one = built("scan_prompt_one") if by_runs else runs._find_none
    with (
        patch.multiple(stream, find_run=find_run, find_prompt_run=prompt, CAN_FIND_RUNS=by_runs),
        patch.object(ClientRequests, "_find_frame", staticmethod(one)),
        patch.object(DelayingRequests, "_find_frame", staticmethod(prompt_one)),
    ):
        yield

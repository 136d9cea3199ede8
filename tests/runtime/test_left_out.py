"""A module that a process leaves out is as if it were not installed; one that is loaded stays."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from coordinator.runtime.left_out import leave_out


def test_a_module_that_is_left_out_is_not_found() -> None:
    """By an import, and by a library that asks before it imports."""
    before = sys.modules.pop("colorsys", None)
    try:
        leave_out("colorsys")

        assert find_spec("colorsys") is None
        with pytest.raises(ImportError):
            import_module("colorsys")
    finally:
        del sys.modules["colorsys"]
        if before is not None:
            sys.modules["colorsys"] = before


def test_a_module_that_is_loaded_stays() -> None:
    """The code that imported it goes on."""
    leave_out("json")

    assert import_module("json") is json

"""The garbage collector does not visit loaded code again."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from coordinator.runtime.gc_tuning import not_collecting

SAYS_SO = """
import gc
from coordinator.runtime.gc_tuning import keep_what_is_loaded
loaded = [[] for _ in range(1000)]
keep_what_is_loaded()
late = []
assert not any(each is loaded for each in gc.get_objects())
assert any(each is late for each in gc.get_objects())
"""


def test_the_collector_leaves_alone_what_was_there_and_looks_at_what_comes() -> None:
    """In a process of its own, because it is for good."""
    subprocess.run([sys.executable, "-c", SAYS_SO], check=True)


def test_what_is_loaded_is_not_looked_through_meanwhile() -> None:
    """Later objects are, even after a failed import."""

    def load() -> None:
        with not_collecting():
            assert not gc.isenabled()
            raise ImportError

    with pytest.raises(ImportError):
        load()
    assert gc.isenabled()

"""A sidecar's recorder does as its configuration says."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.app import factories
from coordinator.config import ConfigError, from_mapping
from tests.adapters.recorder.world import eventually
from tests.config.test_config import GOOD


def test_nothing_is_recorded_unasked() -> None:
    """A disk is filled by those who said so."""
    assert factories.recorder(from_mapping(GOOD)) is None


def test_a_directory_is_recorded_to(tmp_path: Path) -> None:
    """It need not exist yet, and the recorder says how it goes."""
    place = tmp_path / "recorded"
    recorder = factories.recorder(from_mapping({**GOOD, "record_dir": str(place)}))
    assert recorder is not None
    recorder.start()
    eventually(lambda: recorder.health().recording, "recording")
    recorder.close()


def test_a_place_that_is_none_is_refused_at_the_start() -> None:
    """With the key's name."""
    with pytest.raises(ConfigError, match="record_dir gopher://x: no file system for this URL"):
        factories.recorder(from_mapping({**GOOD, "record_dir": "gopher://x"}))

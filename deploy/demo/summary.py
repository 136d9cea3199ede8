"""The results of a run: the summary, and the recording that it was computed from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.demo.dispatch_figures import DispatchFigures
from deploy.demo.figures import DemoFigures
from deploy.demo.recording import DemoRecording


def summary(figures: DemoFigures) -> dict[str, Any]:
    """Return the summary as plain data: seconds, messages per second, and shares of 1."""
    return {
        "limit": figures.limit,
        "aggregate_mean": round(figures.aggregate_mean, 1),
        "aggregate_error": round(figures.aggregate_error, 5),
        "peak_overshoot_1s": round(max(0.0, figures.peak), 4),
        "highest_second": {act.event: round(act.later_round, 4) for act in figures.acts},
        "jain": round(figures.jain, 5),
        "min_share": round(figures.min_share, 4),
        "settle_seconds": {act.event: _rounded(act.settle_s) for act in figures.acts},
        "reclaim_seconds": _rounded(figures.reclaim_s),
        "waited_seconds": {act.event: _rounded(act.waited_s) for act in figures.acts},
        "dispatch": None if figures.dispatch is None else _dispatch(figures.dispatch),
        "source": "broker msgInCounter",
    }


def _dispatch(figures: DispatchFigures) -> dict[str, Any]:
    return {
        "limit": figures.limit,
        "shares": {broker: round(share, 4) for broker, share in figures.shares.items()},
        "error": round(figures.error, 5),
        "jain": round(figures.jain, 5),
        "highest_second": round(figures.highest, 4),
        "missing": figures.missing,
    }


def write(told: Mapping[str, Any], recording: DemoRecording, directory: Path, suffix: str) -> Path:
    """Write ``summary<suffix>.json`` and ``counters<suffix>.json``; return the summary's path."""
    directory.mkdir(parents=True, exist_ok=True)
    raw = directory / f"counters{suffix}.json"
    raw.write_text(json.dumps(dataclasses.asdict(recording)) + "\n")
    file = directory / f"summary{suffix}.json"
    file.write_text(json.dumps(told, indent=2) + "\n")
    return file


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)

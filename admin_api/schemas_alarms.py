"""The JSON of alarms."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from admin_api.schemas import CamelModel
from coordinator.insight.model.alarms import Alarm

_NANOS_PER_MILLI = 1_000_000


class AlarmBody(CamelModel):
    """One alarm as the answering sidecar sees it."""

    alarm: str = Field(description="its kind, as the rules for Prometheus call it")
    subject: str = Field(description="the group or broker")
    severity: str = Field(description="info, warning or critical")
    state: str = Field(description="pending, firing, or clearing: over, but not for long yet")
    age_millis: int = Field(description="since it was seen first")
    text: str
    action: str = Field(description="what to do about it")

    @classmethod
    def of(cls, alarm: Alarm, now_ns: int) -> Self:
        """Write one alarm."""
        sighting = alarm.sighting
        return cls(
            alarm=sighting.kind.value,
            subject=sighting.subject,
            severity=sighting.kind.severity.value,
            state=alarm.stage.value,
            age_millis=max(0, now_ns - alarm.began_ns) // _NANOS_PER_MILLI,
            text=sighting.text,
            action=sighting.kind.action,
        )

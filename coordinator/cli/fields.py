"""The fields of a definition: their names for people, and their values."""

from __future__ import annotations

from coordinator.core.answer import Number

#: Readable names of the four dimensions, by Pulsar's field names.
DIMENSION_NAMES = {
    "publishRateInMsgs": "publish messages",
    "publishRateInBytes": "publish bytes",
    "dispatchRateInMsgs": "dispatch messages",
    "dispatchRateInBytes": "dispatch bytes",
}


FieldValue = Number | str | list[str]
"""The value of a field of a definition."""

"""The body that sets the cluster's specification."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from admin_api.schemas.definitions import RequestBody
from admin_api.schemas.numbers import ByteRate, MessageRate
from coordinator.core.answer import from_wire
from coordinator.insight.model.specification import WHOLE, Specification


class SpecificationPatch(RequestBody):
    """A cluster's limits, production and consumption together, per second; -1 = not limited."""

    rate_in_msgs: MessageRate = Field(default=None, description="messages/s")
    rate_in_bytes: ByteRate = Field(default=None, description="bytes/s")
    production_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    delayed_rate_in_msgs: MessageRate = Field(
        default=None, description="delayed messages/s, beside the rest; absent = as it was"
    )

    def specification(self) -> Specification:
        """Return the specification as the core has it."""
        return Specification(
            None if self.rate_in_msgs is None else from_wire(self.rate_in_msgs),
            None if self.rate_in_bytes is None else from_wire(self.rate_in_bytes),
            round(self.production_share * WHOLE),
        )

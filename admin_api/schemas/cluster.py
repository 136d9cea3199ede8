"""The body that sets the cluster's specification."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from admin_api.schemas.definitions import RequestBody
from admin_api.schemas.numbers import ByteRate, MessageRate
from coordinator.core.answer import from_wire
from coordinator.insight.model.specification import WHOLE, Specification


def _no_boolean(value: object) -> object:
    # To pydantic true is 1, which would leave consumption nothing.
    if isinstance(value, bool):
        raise PydanticCustomError("share", "must be a number from 0 to 1, but is a boolean")
    return value


class SpecificationPatch(RequestBody):
    """A cluster's limits, production and consumption together, per second; -1 = not limited."""

    rate_in_msgs: MessageRate = Field(default=None, description="messages/s")
    rate_in_bytes: ByteRate = Field(default=None, description="bytes/s")
    production_share: Annotated[float, BeforeValidator(_no_boolean), Field(ge=0.0, le=1.0)] = 0.5
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

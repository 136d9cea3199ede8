"""The four rates of a group, a broker or a topic, as answers have them."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Self

from coordinator.core.answer import Number, Wire, answer, exact_from_wire, exact_to_wire
from coordinator.core.model import AnyRates, Dimension, Rates, rates_of


@answer
class RatesView:
    """Four rates per second; -1 = not limited."""

    publish_rate_in_msgs: Number
    publish_rate_in_bytes: Number
    dispatch_rate_in_msgs: Number
    dispatch_rate_in_bytes: Number

    @classmethod
    def limits(cls, rates: AnyRates, **further: Any) -> Self:
        """Write limits, None as -1, and the further fields of a subclass."""
        return cls(*(exact_to_wire(rates.of(each)) for each in Dimension), **further)

    @classmethod
    def measured(cls, rates: Rates) -> Self:
        """Write measured rates: a rate without a count is 0."""
        return cls(*(rates.of(each) or 0 for each in Dimension))

    @property
    def rates(self) -> AnyRates:
        """Return the rates as the code has them."""
        written = (getattr(self, field.name) for field in fields(RatesView))
        return rates_of(dict(zip(Dimension, map(exact_from_wire, written), strict=True)))


Limits = Annotated[AnyRates, Wire(RatesView.limits, lambda view: view.rates, RatesView)]
Measured = Annotated[Rates, Wire(RatesView.measured, lambda view: view.rates, RatesView)]

"""Families of metrics: with one sample, with one for each value of a label, and tables of families.

A family is a line of a table: its name and its help. What it is a sample of comes from a view, by the
same name, so a new figure is a line here and a value there. ``{unit}`` in a name stands for messages and
bytes: it makes a family of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from coordinator.core.model import Rate, Unit

EXPORTER: Final = "exporter"
"""The label of every metric that has a name of Pulsar's: the broker beside has it, too.

Without it both would be series of the same labels but for Prometheus's own, and a sum would count twice.
"""

OURS: Final = "pulsar-quota"
"""Its value."""

PREFIX: Final = "pulsar_quota_"

Texts = Mapping[str, str]
"""Names of families, and their help."""

_Family = GaugeMetricFamily | CounterMetricFamily


def gauge(name: str, text: str, value: float, unit: str = "") -> Metric:
    """Return a gauge."""
    return GaugeMetricFamily(PREFIX + name, text, value=value, unit=unit)


def counter(name: str, text: str, value: float, unit: str = "") -> Metric:
    """Return a counter."""
    return CounterMetricFamily(PREFIX + name, text, value=value, unit=unit)


def labelled_counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    """Return a counter for each value of a label."""
    family = CounterMetricFamily(PREFIX + name, text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def figures(prefix: str, view: object, gauges: Texts, counters: Texts) -> Iterator[Metric]:
    """Yield families of one sample: the attributes of a view with these names, behind a prefix."""
    for family, texts in ((gauge, gauges), (counter, counters)):
        for name, text in texts.items():
            unit = "bytes" if name.endswith("_bytes") else ""
            yield family(prefix + name, text, getattr(view, name), unit)


class FamilyTable:
    """Families with the same labels, which are filled sample by sample; iterating yields each once.

    Args:
        labels: of each family.
        gauges: the gauges; a help with ``{unit}`` or ``{Unit}`` names the unit of its family.
        counters: the counters, likewise.
        prefix: of all names.
        with_units: the names whose end OpenMetrics is told as the unit.
    """

    def __init__(
        self,
        labels: Sequence[str],
        gauges: Texts,
        counters: Texts,
        *,
        prefix: str = PREFIX,
        with_units: Collection[str] = (),
    ) -> None:
        self._families: list[_Family] = []
        #: By name, for samples of each unit and of none.
        self._named: dict[Unit | None, dict[str, _Family]] = {of: {} for of in (None, *Unit)}
        for kind, texts in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
            for name, text in texts.items():
                end = name.rpartition("_")[2] if name in with_units else ""
                for unit in Unit if "{unit}" in name else (None,):
                    word = "" if unit is None else unit.value
                    help_ = text.format(unit=word, Unit=word.capitalize())
                    family = kind(prefix + name.format(unit=word), help_, labels=labels, unit=end)
                    self._families.append(family)
                    self._named[unit][name] = family

    def add(
        self,
        labels: Sequence[str],
        values: Mapping[str, Rate | float | None],
        unit: Unit | None = None,
    ) -> None:
        """Add a sample to each named family that has a value: of the families by unit, to this one's."""
        named = self._named[unit]
        for name, value in values.items():
            if value is not None:
                named[name].add_metric(labels, float(value))

    def __iter__(self) -> Iterator[Metric]:
        """Yield each family."""
        yield from self._families

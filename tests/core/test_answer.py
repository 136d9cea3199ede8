"""Answers: declared once, written by the API, read by the command."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from pydantic import TypeAdapter

from coordinator.core.answer import (
    Age,
    Limit,
    Permille,
    answer,
    descriptions,
    read,
    written,
)
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import Dimension, Rates, Unit
from coordinator.insight.model.rates import Limits
from coordinator.insight.model.views import (
    BrokerUsageView,
    Explanation,
    GroupUsageView,
    HealthView,
    MemberView,
    WantView,
)
from coordinator.ports import RecordingView


@answer
class Part:
    """A part of an answer."""

    limit: Limit
    used_permille: Permille
    seen_age_ns: Age | None = None


@answer
class Whole:
    """An answer with all that one may hold."""

    state: Lifecycle
    parts: tuple[Part, ...]
    by_unit: Mapping[Unit, Limit]
    text: str = "none"


WHOLE = Whole(
    Lifecycle.ACTIVE,
    (Part(None, 250), Part(0, 0, 3_000_000)),
    {Unit.MESSAGES: None, Unit.BYTES: 7},
)
TOLD = {
    "state": "ACTIVE",
    "parts": [
        {"limit": -1, "usedShare": 0.25, "seenAgeMillis": None},
        {"limit": 0, "usedShare": 0.0, "seenAgeMillis": 3},
    ],
    "byUnit": {"messages": -1, "bytes": 7},
    "text": "none",
}


def test_names_and_values_follow_from_the_fields() -> None:
    """Camel case, Pulsar's -1, milliseconds, shares of one, values of enumerations."""
    assert written(WHOLE) == TOLD


def test_what_is_written_reads_as_it_was() -> None:
    """The command has the objects that the API had."""
    assert read(Whole, TOLD) == WHOLE
    assert read(list[Whole], [TOLD, TOLD]) == [WHOLE, WHOLE]


def test_another_release_may_say_more_or_less() -> None:
    """A field that is unknown is left out; one that is absent has its default, if there is one."""
    assert read(Part, {"limit": 1, "usedShare": 1.0, "colour": "red"}) == Part(1, 1000)
    with pytest.raises(TypeError, match="used_permille"):
        read(Part, {"limit": 1})
    with pytest.raises(TypeError):
        read(Part, "all is well")
    with pytest.raises(ValueError, match="ASLEEP"):
        read(Whole, TOLD | {"state": "ASLEEP"})


@answer
class Load:
    """An answer with scalars."""

    name: str
    ratio: float
    number: int
    busy: bool
    peak: int | None = None


LOAD = {"name": "b1", "ratio": 0.5, "number": 3, "busy": True, "peak": None}


@pytest.mark.parametrize(
    ("form", "told", "said"),
    [
        (Load, [], "list in place of dict"),
        (Load, None, "NoneType in place of dict"),
        (Load, LOAD | {"name": 1}, "int in place of str"),
        (Load, LOAD | {"name": None}, "NoneType in place of str"),
        (Load, LOAD | {"ratio": "1"}, "str in place of float"),
        (Load, LOAD | {"ratio": True}, "bool in place of float"),
        (Load, LOAD | {"number": 3.0}, "float in place of int"),
        (Load, LOAD | {"number": True}, "bool in place of int"),
        (Load, LOAD | {"busy": 1}, "int in place of bool"),
        (Load, LOAD | {"peak": "high"}, "str in place of int"),
        (Mapping[Unit, int], ["messages"], "list in place of dict"),
        (Mapping[Unit, int], {"messages": []}, "list in place of int"),
        (list[int], {"0": 1}, "dict in place of list"),
        (list[int], [1, "2"], "str in place of int"),
        (tuple[Load, ...], "b1", "str in place of list"),
        (tuple[Load, ...], [LOAD, 7], "int in place of dict"),
        (Limit, None, "NoneType in place of int"),
        (Age, 1.5, "float in place of int"),
        (Permille, "all", "str in place of float"),
        (Limits, [1, 2, 3, 4], "list in place of dict"),
        (Limits, dict.fromkeys(Dimension, "1"), "RatesView.*missing"),
        (Limits, {dimension.value: "1" for dimension in Dimension}, "str in place of float"),
    ],
)
def test_a_value_of_another_type_is_named_beside_the_type_it_should_have(
    form: type, told: object, said: str
) -> None:
    """A sidecar that lies is told so; no value of a wrong type gets into an answer."""
    with pytest.raises(TypeError, match=said):
        read(form, told)


@pytest.mark.parametrize("told", ["ASLEEP", 7, None, [], {}])
def test_only_the_values_of_an_enumeration_read_as_its_members(told: object) -> None:
    """Anything else is no member."""
    with pytest.raises(ValueError, match="not a valid Lifecycle"):
        read(Lifecycle, told)


def test_a_whole_number_reads_as_a_fraction() -> None:
    """JSON does not tell 1 from 1.0."""
    assert read(Load, LOAD | {"ratio": 1}) == Load("b1", 1, 3, busy=True)
    assert read(Part, {"limit": 1, "usedShare": 1}) == Part(1, 1000)


@answer
class Told:
    """An answer with a field of several forms, and a time in seconds."""

    what: Load | Part | str | None
    age_s: float = 0.0


@pytest.mark.parametrize("what", [Load("b1", 0.5, 3, busy=True), Part(None, 0), "gone", None])
def test_a_value_of_several_forms_reads_in_the_first_that_it_has(
    what: Load | Part | str | None,
) -> None:
    """Forms are told apart by what they need; the last says what is wrong with a value of none."""
    told = written(Told(what, 1.5))

    assert told["ageSeconds"] == 1.5
    assert read(Told, told) == Told(what, 1.5)
    assert json.loads(TypeAdapter(Told).dump_json(Told(what, 1.5), by_alias=True)) == told
    with pytest.raises(TypeError, match="int in place of str"):
        read(Told, {"what": 7})


def test_a_number_without_an_end_in_one_form_leaves_the_value_to_the_next() -> None:
    """JSON of 1e999 is infinite, which is no part in thousandths."""
    told = {"what": {"limit": 1, "usedShare": 1e999}}

    with pytest.raises(TypeError, match="dict in place of str"):
        read(Told, told)


LIMITS = Rates(publish_messages=1_000, dispatch_bytes=0)
HEALTH = HealthView(
    broker="b1",
    incarnation=7,
    state=Lifecycle.DEGRADED,
    degradations=(Degradation.BUS_SILENT,),
    ready=False,
    members=(MemberView("b1", 7, "", None), MemberView("b2", 8, "h:1", 5_000_000)),
    round=3,
    reports_dropped={"stale": 1},
    foreign_reports={"b2": 3},
    announcements_capped={"b2": 1},
    recording=RecordingView(recording=True),
)
USAGE = GroupUsageView(
    "orders",
    "enforce",
    {},
    LIMITS,
    (BrokerUsageView("b1", Rates(7, 8, 9, 10), LIMITS, dict.fromkeys(Dimension, 5), 1, 2, 10**6),),
)
EXPLANATION = Explanation(
    group="orders",
    dimension=Dimension.PUBLISH_MESSAGES,
    broker="b1",
    cluster_limit=1_000,
    local_limit=None,
    target=500,
    binding="level",
    water_level=None,
    binds=Unit.BYTES,
    decided_age_ns=4_000_000,
    round=3,
    wants=(WantView("b1", None, 5, 1, 5, None, 610, 0),),
    sentence="So it is.",
)


@pytest.mark.parametrize("value", [WHOLE, HEALTH, USAGE, EXPLANATION])
def test_the_api_writes_what_the_command_writes_and_reads(value: object) -> None:
    """Pydantic and `written` follow the same declaration."""
    told = json.loads(TypeAdapter(type(value)).dump_json(value, by_alias=True))

    assert told == written(value)
    assert read(type(value), told) == value


def test_docstrings_of_fields_describe_them_in_the_reference() -> None:
    """A field is described where it is declared."""
    schema = TypeAdapter(MemberView).json_schema(mode="serialization")

    assert (
        descriptions("MemberView")["incarnation"] == "grows with every registration of the broker"
    )
    assert schema["required"] == [
        "broker",
        "incarnation",
        "apiAddress",
        "reportAgeMillis",
        "silent",
    ]

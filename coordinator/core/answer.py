"""Answers: dataclasses that the API writes, the command reads and the reference of the API lists.

The form of an answer on the wire follows from its fields:

* the name is the field's in camel case; ``_ns`` becomes ``Millis``, ``_s`` becomes ``Seconds``, and
  ``_permille`` becomes ``Share``;
* a type with a `Wire`, such as `Limit`, `Age` and `Permille`, says how its values are written; an
  enumeration is written by its value;
* the docstring under the field describes it in the API's reference.

pydantic, which the API uses, takes the same from ``__pydantic_config__`` and `Wire`. The command needs
only `read` and `written`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from textwrap import dedent
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from coordinator.core.model import NANOS_PER_MILLI, Rate
from coordinator.core.rates import number_of, rate_of

T = TypeVar("T")

UNLIMITED: Final = -1
"""Pulsar's number for a rate that is not limited, which the code has as None."""

_answers: Final[dict[str, type]] = {}
_SUFFIXES: Final = {"_ns": "_millis", "_s": "_seconds", "_permille": "_share"}


Number = int | float
"""A number of JSON."""


def to_wire(rate: int | None) -> int:
    """Return a rate as Pulsar writes it."""
    return UNLIMITED if rate is None else rate


def from_wire(rate: int) -> int | None:
    """Return a rate as the code has it."""
    return None if rate == UNLIMITED else rate


def exact_to_wire(rate: Rate | None) -> Number:
    """Return a rate that may have a fraction as Pulsar writes it, to a thousandth."""
    return UNLIMITED if rate is None else number_of(rate)


def exact_from_wire(rate: Number) -> Rate | None:
    """Return the same as the code has it; raises ValueError if it is no rate."""
    if rate == UNLIMITED:
        return None
    found = rate_of(rate)
    if found is None:
        raise ValueError(f"{rate} is no rate")
    return found


@dataclass(frozen=True, slots=True)
class Wire:
    """The written form of the values of a type, and the way back.

    Args:
        write: returns what is written.
        read: returns the value of what was written.
        form: the type of what is written.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    form: Any

    def __get_pydantic_core_schema__(self, _: Any, handler: Any) -> dict[str, Any]:
        """Return the same for pydantic: values are written by `write`, as `form`."""
        written = {
            "type": "function-plain",
            "function": self.write,
            "return_schema": handler.generate_schema(self.form),
        }
        return {"type": "any", "serialization": written}


Limit = Annotated[int | None, Wire(to_wire, from_wire, int)]
"""A whole rate per second; -1 on the wire is not limited."""

ExactLimit = Annotated[Rate | None, Wire(exact_to_wire, exact_from_wire, Number)]
"""A rate per second that may have a fraction; -1 on the wire is not limited."""

Age = Annotated[int, Wire(lambda ns: ns // NANOS_PER_MILLI, lambda ms: ms * NANOS_PER_MILLI, int)]
"""A time in nanoseconds, in whole milliseconds on the wire."""

Permille = Annotated[int, Wire(lambda n: n / 1000, lambda share: round(share * 1000), float)]
"""A part in thousandths; from 0 to 1 on the wire."""


@dataclass_transform(frozen_default=True)
def answer(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass that is an answer."""
    made = dataclass(frozen=True, slots=True)(cls)
    config = {
        "alias_generator": _name_on_wire,
        "validate_by_name": True,
        "json_schema_serialization_defaults_required": True,
    }
    made.__pydantic_config__ = config  # type: ignore[attr-defined]
    _answers[made.__name__] = made
    return made


def descriptions(name: str) -> dict[str, str]:
    """Return the docstrings under the fields of an answer, by their names on the wire.

    They are read from its source; a class that is no answer has none.
    """
    found: dict[str, str] = {}
    for each in reversed(_answers[name].__mro__ if name in _answers else ()):
        if is_dataclass(each):
            (definition,) = ast.parse(dedent(inspect.getsource(each))).body
            found |= _docstrings_under_fields(cast("ast.ClassDef", definition))
    return found


def _docstrings_under_fields(definition: ast.ClassDef) -> dict[str, str]:
    return {
        _name_on_wire(field.target.id): inspect.cleandoc(below.value.value)
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def read(form: type[T], told: object) -> T:
    """Return what was told as an answer, a list of answers (``list[Answer]``) or the like.

    Fields that are unknown here are left out: a newer sidecar may tell more.

    Raises:
        KeyError, OverflowError, TypeError, ValueError: it has another form.
    """
    found: T = _read(form, told)
    return found


def written(value: object) -> Any:
    """Return an answer, or a list or mapping with answers, as JSON has it."""
    return _written(value, None)


class _Field(NamedTuple):
    name: str
    on_wire: str
    form: Any


@cache
def _fields(cls: Any) -> tuple[_Field, ...]:
    forms = get_type_hints(cls, include_extras=True)
    return tuple(_Field(f.name, _name_on_wire(f.name), forms[f.name]) for f in fields(cls))


def _name_on_wire(name: str) -> str:
    for suffix, replacement in _SUFFIXES.items():
        if name.endswith(suffix):
            name = name.removesuffix(suffix) + replacement
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _read(form: Any, told: Any) -> Any:
    parts, origin = get_args(form), get_origin(form)
    if origin in (Union, UnionType):
        return _read_one_of(parts, told)
    if origin is Annotated:
        return parts[1].read(_read(parts[1].form, told))
    if is_dataclass(form):
        members = _checked(dict, told)
        known = (f for f in _fields(cast("Hashable", form)) if f.on_wire in members)
        return form(**{f.name: _read(f.form, members[f.on_wire]) for f in known})  # type: ignore[operator]
    if origin in (dict, Mapping):
        members = _checked(dict, told)
        return {_read(parts[0], key): _read(parts[1], value) for key, value in members.items()}
    if origin is not None:
        return origin(_read(parts[0], value) for value in _checked(list, told))
    return form(told) if issubclass(form, Enum) else _checked(form, told)


def _read_one_of(forms: tuple[Any, ...], told: Any) -> Any:
    """Return what was told in the first form that it has; if it has none, raise as of the last."""
    if told is None and NoneType in forms:
        return None
    *others, last = (form for form in forms if form is not NoneType)
    for form in others:
        with suppress(KeyError, OverflowError, TypeError, ValueError):
            return _read(form, told)
    return _read(last, told)


def _checked(form: Any, told: Any) -> Any:
    """Return what was told, if it is of this type of JSON; a whole number is a fraction, too."""
    if type(told) is form or (form is float and type(told) is int):
        return told
    raise TypeError(f"{type(told).__name__} in place of {form.__name__}")


def _written(value: Any, form: Any) -> Any:
    if value is not None:
        form = _without_none(form)
    parts = get_args(form)
    if get_origin(form) is Annotated:
        return _written(parts[1].write(value), parts[1].form)
    if is_dataclass(value):
        return {
            f.on_wire: _written(getattr(value, f.name), f.form)
            for f in _fields(cast("Hashable", type(value)))
        }
    if isinstance(value, Mapping):
        of = parts[1] if parts else None
        return {_written(key, None): _written(each, of) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_written(each, parts[0] if parts else None) for each in value]
    return value.value if isinstance(value, Enum) else value


def _without_none(form: Any) -> Any:
    """Return the form of a value that is present, the last of several."""
    if get_origin(form) not in (Union, UnionType):
        return form
    (*_, last) = (each for each in get_args(form) if each is not NoneType)
    return last

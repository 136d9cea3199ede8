"""The description of the API (OpenAPI), of which all that only its readers need is made when they ask.

Importing the routes takes a third less processor time for it. FastAPI builds a validator for each model
of each possible answer of each route, and pydantic reads the source of each answer for the docstrings of
its fields, both when routes are made; so routes name their errors by reference, and the docstrings are
read here.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI

from coordinator.core.answer import descriptions

_PROBLEM: Final = "Problem"
_REFERENCE: Final = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_PROBLEM}"}}}

PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {
        "content": _REFERENCE,
        "description": "The request was refused; nothing has changed.",
    },
    "503": {
        "content": _REFERENCE,
        "description": "ZooKeeper, the broker or the gate does not answer.",
    },
}
"""Answers of every route that are no success."""


def install(app: FastAPI) -> None:
    """Describe problems and the fields of answers in the application's description."""
    described = app.openapi

    def with_descriptions() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = described()  # which the application keeps
        schemas = document["components"]["schemas"]
        schemas[_PROBLEM] = {
            "title": _PROBLEM,
            "description": "Every answer that is not a success.",
            "type": "object",
            "properties": {"reason": {"title": "Reason", "type": "string"}},
            "required": ["reason"],
        }
        for name, schema in schemas.items():
            for field, description in descriptions(name).items():
                schema["properties"][field]["description"] = description
        return document

    app.openapi = with_descriptions  # type: ignore[method-assign]  # as FastAPI documents it

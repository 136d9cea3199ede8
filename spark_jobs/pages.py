"""Pages from the templates beside: what is put into one is escaped, unless it is markup already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from spark_jobs.refusals import INSTALL, RefusedInput


def refuse_without(*libraries: str) -> None:
    """Refuse to begin what takes long and ends with a page, where the page cannot be made.

    Raises:
        RefusedInput: one of the libraries is not there.
    """
    lacking = [name for name in libraries if find_spec(name) is None]
    if lacking:
        raise RefusedInput(f"this Python lacks {' and '.join(lacking)} for pages: {INSTALL}")


def rendered(name: str, filters: Mapping[str, Callable[..., str]], **shown: Any) -> str:
    """Return a page.

    Args:
        name: of the template.
        filters: functions that it uses behind a bar.
        shown: values that it shows; one that it lacks is a mistake of ours.
    """
    import jinja2  # noqa: PLC0415 - for the last step of a job; executors need not have it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spark_jobs"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return f"{environment.get_template(name).render(shown)}\n"

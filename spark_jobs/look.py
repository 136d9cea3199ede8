"""The one look of all charts: matplotlib's settings, and a figure as SVG inside a page.

The colours of a page change with its theme. A chart is drawn in those of the light one, and each of them
becomes the page's CSS variable when the SVG is put inline. Text stays text, in the page's own font.
Names come from tenants: they are drawn as they are, never as formulas, and escaped as XML.
"""

from __future__ import annotations

import io
import re
import warnings
from contextlib import AbstractContextManager
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

INK, SOFT, LINE, PAPER = "#1c2430", "#5b6675", "#d9dee5", "#ffffff"
BAD, ACCENT = "#b3261e", "#0b62c4"
_VARIABLES = {
    INK: "--ink", SOFT: "--soft", LINE: "--line", PAPER: "--paper", BAD: "--bad", ACCENT: "--accent",
}  # fmt: skip
"""Those of templates/style.css, which has them for a dark page, too."""
SERIES = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c00", "#8a8f98",
)  # fmt: skip
"""One after the other, on light and dark (Okabe and Ito: told apart by the colour-blind, too)."""
DASHES = (0, (5, 3))
WIDTH, HALF = 960, 600
"""Of a chart, and of one of two beside each other, in pixels of its own; the page scales it."""

_TITLE_LETTERS = 300
_FONT = "DejaVu Sans"
"""Comes with matplotlib, and tells it how wide text is."""
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_NUMBER = re.compile(r"-?\d+\.\d+")
_NAMED = re.compile(r"_\d+$")


def settings(ink: str, faint: str, rule: str) -> dict[Any, Any]:  # matplotlib types every key
    """The settings of matplotlib.

    Args:
        ink: the colour of titles.
        faint: of labels.
        rule: of axes and the grid.
    """
    return {
        "svg.hashsalt": "pulsar-quota",
        "savefig.transparent": True,
        "font.family": _FONT,
        "text.color": ink,
        "axes.labelcolor": faint,
        "axes.titlecolor": ink,
        "axes.edgecolor": rule,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": rule,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.6,
        "xtick.color": faint,
        "ytick.color": faint,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "legend.frameon": False,
        "legend.labelcolor": ink,
    }


_IN_A_PAGE = {
    **settings(INK, SOFT, LINE),
    "svg.fonttype": "none",
    "text.parse_math": False,
    "figure.dpi": 72,  # a point is a pixel
    "path.simplify": False,  # every point is where it was recorded
    "font.size": 11,
    "axes.spines.left": False,
    "axes.grid.axis": "y",
    "xtick.major.pad": 6,
    "ytick.major.pad": 6,
}


def drawing() -> AbstractContextManager[None]:
    """Use the settings of charts that go inline."""
    return mpl.rc_context(_IN_A_PAGE)


def css(colour: str) -> str:
    """A colour as a page's style has it."""
    return f"var({_VARIABLES[colour]})" if colour in _VARIABLES else colour


def printable(text: str, longest: int) -> str:
    """A name as a chart has room for it, without what XML cannot hold."""
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def inline(figure: Figure, title: str) -> Markup:
    """A figure as an element of a page, with a title that a screen reader speaks.

    An id that matplotlib counts is another chart's, too, and goes; a name (``set_gid``) becomes a class.
    """
    written = io.StringIO()
    with warnings.catch_warnings():
        # The page's font may have the letters that matplotlib's has not.
        warnings.filterwarnings("ignore", message="Glyph")
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(written, format="svg", metadata=nothing)
    title = printable(title, _TITLE_LETTERS)
    root = ET.fromstring(written.getvalue())  # noqa: S314 - matplotlib has just written it
    view = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": view, "role": "img", "aria-label": title})
    root.remove(root[0])  # a style of every element, not of the chart's alone
    named = ET.Element("title")
    named.text = title
    root.insert(0, named)
    for element in root.iter():
        _tidy(element)
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - escaped as XML


def _tidy(element: ET.Element) -> None:
    """Leave what draws: no namespaces, numbers of a tenth of a pixel, the page's font and colours."""
    element.tag = element.tag.rpartition("}")[2]
    attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    element.attrib.clear()
    if element.tag in ("g", "image") and "id" in attributes:
        name = attributes.pop("id")
        if element.tag == "g" and not _NAMED.search(name):
            attributes["class"] = name
    if "d" in attributes:
        shorter = _NUMBER.sub(_rounded, attributes["d"])
        attributes["d"] = " ".join(shorter.split())
    if "style" in attributes:
        told = attributes["style"].replace(f"font-family: '{_FONT}'; ", "")
        attributes["style"] = _COLOUR.sub(lambda colour: css(colour[0]), told)
    if "href" in attributes:
        attributes["href"] = "".join(attributes["href"].split())
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    if not (element.text or "").strip():
        element.text = None
    element.tail = None
    element.attrib.update(attributes)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")

"""A physical plan as an outline: what moves, sorts, joins and adds up rows, and by which columns.

Projections, numbers of columns and of partitions, and what a filter asks are left out: they change with
every second edit and cost next to nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

_INDENT = 3
_LEFT_OUT = ("AdaptiveSparkPlan", "Project", "ColumnarToRow")
_SHOWN = (
    (r"Exchange hashpartitioning\((.*), \d+\), (\w+)", r"Exchange by [\1] \2"),
    (r"Exchange (\w+)", r"Exchange \1"),
    (r"BroadcastExchange", r"BroadcastExchange"),
    (r"(\w*Aggregate)\(keys?=\[(.*?)\], functions=\[partial_", r"\1 by [\2], a part"),
    (r"(\w*Aggregate)\(keys?=\[(.*?)\]", r"\1 by [\2]"),
    (r"Window .*\], \[([^\[\]]*)\], \[([^\[\]]*)\]$", r"Window by [\1] in order of [\2]"),
    (r"Window .*\], \[([^\[\]]*)\]$", r"Window by [\1]"),
    (r"(\w+Join) \[(.*?)\], \[.*?\], (\w+)", r"\1 by [\2] \3"),
    (r"(\w+Join) (\w+), (\w+)", r"\1 \2 \3"),
    (r"Sort \[(.*)\], \w+, \d+", r"Sort [\1]"),
    (r"(\w+)", r"\1"),
)


@dataclass
class _Node:
    text: str
    children: list[_Node] = field(default_factory=list)


def outline(frame: DataFrame) -> str:
    """The plan before it is adapted to what the data turn out to be, one operator a line."""
    return outline_of(str(frame._jdf.queryExecution().executedPlan().toString()))


def outline_of(plan: str) -> str:
    """The outline of a plan as Spark shows it."""
    top = _Node("")
    open_nodes = [top]
    for line in plan.splitlines():
        tree, text = re.fullmatch(r"([ :|+-]*)(.*)", line).groups()  # type: ignore[union-attr]
        depth = len(tree) // _INDENT
        if not text:
            continue
        node = _Node(re.sub(r"#\d+L?| ASC NULLS FIRST", "", text))
        del open_nodes[depth + 1 :]
        open_nodes[depth].children.append(node)
        open_nodes.append(node)
    return "\n".join(_lines(top, 0))


def _lines(node: _Node, depth: int) -> list[str]:
    found = []
    for child in node.children:
        left_out = child.text.startswith(_LEFT_OUT)
        if not left_out:
            found.append("  " * (depth + 1) + _shown(child.text))
        found += _lines(child, depth if left_out else depth + 1)
    return found


def _shown(text: str) -> str:
    for pattern, template in _SHOWN:
        match = re.match(pattern, text)
        if match:
            return match.expand(template)
    return text

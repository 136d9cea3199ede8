r"""Text from outside, made safe to show: control characters for terminals are escaped.

Names of topics, clients and cursors, reasons of brokers, and entries of an old store may contain any
character. Shown raw, ESC and the controls from U+0080 to U+009F command a terminal, a line feed begins a
line that the program never wrote, and marks of direction (U+202E) let a name read as another. A character
without a glyph becomes its number: ``\x1b``, ``\u202e``, ``\ud800`` for half of a surrogate pair, which
could not even be encoded. All others, spaces of any width too, stay as they are, and a backslash is not
doubled: the result is for readers, not for parsers.

The ways out call it: lines and consoles of the command line (coordinator.cli.output, consoles) and the
reasons of the admin API (admin_api.errors). The log escapes as JSON does (coordinator.runtime.logs).
"""

from __future__ import annotations

import unicodedata

_SPACES = "Zs"


def printable(text: str) -> str:
    """Return the text with an escape in place of every character that is not shown as itself."""
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def printable_lines(text: str) -> str:
    """Escape as `printable` does, but keep line feeds: for lines that the program composed."""
    return "\n".join(map(printable, text.split("\n")))


def _shown(letter: str) -> str:
    if letter.isprintable() or unicodedata.category(letter) == _SPACES:
        return letter
    code = ord(letter)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

"""Text from outside never commands a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.insight.model.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("", ""),
        ("größe 東京 🦊", "größe 東京 🦊"),
        ("61\N{NO-BREAK SPACE}%", "61\N{NO-BREAK SPACE}%"),
        ("C:\\x1b", "C:\\x1b"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\r\nb\tc\x00\x7f", r"a\x0d\x0ab\x09c\x00\x7f"),
        ("\x9b2J", r"\x9b2J"),
        ("a\u202egnp.exe", r"a\u202egnp.exe"),
        ("\u2066a\u2069\u200f\u061c", r"\u2066a\u2069\u200f\u061c"),
        ("a\u2028b\u2029c\ufeff", r"a\u2028b\u2029c\ufeff"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_letters_without_a_glyph_become_their_numbers(text: str, shown: str) -> None:
    """Controls of both sets, marks of direction, line ends, halves of surrogate pairs."""
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_what_is_shown_can_be_encoded_and_holds_no_control(text: str) -> None:
    """This holds for any text, and a second pass changes nothing."""
    shown = printable(text)

    shown.encode()
    assert not any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in shown)
    assert printable(shown) == shown


def test_lines_of_our_own_stay_lines() -> None:
    """A carriage return, which would overwrite one, is no line's end."""
    assert printable_lines("a\nb\rc\x1b\n") == "a\nb\\x0dc\\x1b\n"

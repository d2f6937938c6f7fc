"""Texts from outside as data: without what steers terminals, readers or chat templates.

Nothing of it is needed for a text to be read, and plain text stays as it is.
"""

from __future__ import annotations

import re
from typing import Any

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,999}(?:\x07|\x1b\\)?)"
)
"""Colours, movements and clearing; titles and links."""

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF]
_STEERING = dict.fromkeys([*_CONTROLS, *map(ord, _BIDI)])
"""Controls and marks for the direction of writing; joiners of letters are needed."""
_PLAIN = {sign: to for sign, to in _STEERING.items() if sign not in (9, 10)}

# How templates mark who speaks, and how the guard's own notes begin.
_FAKE = re.compile(
    r"<(?=[|\uff5c]|</?SYS>>|/?(?:start_of_turn|end_of_turn|system(?:-\w{1,20})?)>)"
    r"|\[(?=(?i:loop ?guard|/?INST|/?SYSTEM)\])"
)


def flat(text: str) -> str:
    """`text` on one line, blanks folded, and nothing in it that can't be printed."""
    if not text.isprintable() or "  " in text:
        text = " ".join(without_escapes(text).split())
        if not text.isprintable():
            text = " ".join("".join(filter(str.isprintable, text)).split())
    return text.strip()


def without_escapes(text: str) -> str:
    """`text` without the sequences by which terminals are steered."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def plain(text: str) -> str:
    """`text` with its lines and tabs, without other controls and marks of direction."""
    if text.isprintable():
        return text
    return without_escapes(text).translate(_PLAIN)


def defused(text: str) -> str:
    """`text` in which nothing passes for a turn of a chat or a note of the guard.

    A blank goes behind the bracket: it reads the same, and is no such mark any more.
    """
    return _FAKE.sub(r"\g<0> ", text) if "<" in text or "[" in text else text


def spelled(value: Any) -> str:
    """Any value as text; one that can't be spelled, as endless nesting, by its type."""
    try:
        return str(value)
    except Exception:  # somebody else's `__str__` may raise anything
        return f"<{type(value).__name__}>"


def printable(text: str, sign: str = "?", keep: str = "") -> str:
    """`text` with `sign` in place of all that can't be printed, but for `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else sign for c in text)

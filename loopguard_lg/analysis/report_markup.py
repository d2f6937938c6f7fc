"""HTML from Python calls: a text is escaped wherever it goes, markup is not."""

from __future__ import annotations

from html import escape
from typing import Any

from loopguard_lg.quoting import printable
from loopguard_lg.redaction import masked

_VOID = frozenset({"meta", "br", "link", "rect"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *content: Any, **attributes: Any) -> Markup:
    """An element; `None` is nothing, in content and for an attribute.

    `class_` is `class`, `aria_label` is `aria-label`; `True` is an attribute alone.
    """
    parts = "".join(map(_attribute, attributes.items()))
    if name in _VOID:
        return Markup(f"<{name}{parts}/>")  # in SVG it has to be closed
    return Markup(f"<{name}{parts}>{joined(*content)}</{name}>")


def joined(*content: Any) -> Markup:
    """Contents after each other."""
    return Markup("".join(map(_one, content)))


def _one(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, list | tuple):
        return joined(*content)
    return safe(str(content))


def safe(text: str) -> str:
    """Text for HTML: escaped, without secrets, and without what steers other text.

    Control and format characters (among them those that turn the direction of writing)
    are replaced, so that a text looks like what it is.
    """
    return escape(printable(masked(text), "�", keep="\n\t"))


def _attribute(pair: tuple[str, Any]) -> str:
    name, value = pair[0].rstrip("_").replace("_", "-"), pair[1]
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{safe(str(value))}"'

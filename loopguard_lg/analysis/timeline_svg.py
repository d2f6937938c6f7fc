"""A laid-out timeline as SVG: colours for light and dark, every text escaped."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from loopguard_lg.analysis.timeline_picture import Box, Picture, Shape, Stroke, Word
from loopguard_lg.quoting import printable
from loopguard_lg.redaction import masked

HUES = ("#8ab4f8", "#f6b94f", "#f28b82", "#7fcf97", "#c99bf7", "#70d3e8", "#ff9ecb",
        "#cdbb8c")  # fmt: skip
"""Colours of the calls that come again, most frequent first. Dark letters are readable
on each, and their lightness differs as well as their hue."""

LIGHT = {
    "ink": "#1b1c20", "dim": "#5d6470", "line": "#d7dbe2", "once": "#e6e9ee",
    "loop": "#c5221f", "rung": "#8a3ffc", "move": "#137a3c", "bar": "#8f99a8",
    "paper": "#ffffff",
}  # fmt: skip
DARK = {
    "ink": "#e8eaed", "dim": "#a3abb8", "line": "#3a4049", "once": "#3a414c",
    "loop": "#ff8a80", "rung": "#c8a2ff", "move": "#6fdc97", "bar": "#78828f",
    "paper": "#16181d",
}  # fmt: skip

ON_HUE = "#15171b"
"""Text on a colour."""


def style(theme: Mapping[str, str], scope: str = "") -> str:
    """The colours of a theme as CSS, for drawings below `scope`."""
    fills = {"once": theme["once"], "bar": theme["bar"], "other": "none"}
    fills |= {f"hue{n}": hue for n, hue in enumerate(HUES)} | {"clear": "transparent"}
    lines = [f"{scope}.{kind}{{fill:{fill}}}" for kind, fill in fills.items()]
    strokes = {"loop": "loop", "move": "move", "line": "line", "failed": "loop"}
    strokes |= {"blocked": "rung"}
    for kind, name in strokes.items():
        lines.append(f"{scope}path.{kind}{{stroke:{theme[name]}}}")
    for kind in ("ink", "dim", "loop", "rung"):
        lines.append(f"{scope}text.{kind}{{fill:{theme[kind]}}}")
    lines.append(f"{scope}rect.other{{stroke:{theme['line']}}}")
    return "".join(lines)


_FIXED = (
    "text{font:11px system-ui,sans-serif}text.letter{font-weight:600;fill:"
    f"{ON_HUE}}}path{{fill:none;stroke-width:1.5}}path.move{{stroke-width:2}}"
    "path.failed,path.blocked{stroke-width:2.5}.cell:focus{outline:none}"
    ".cell:focus rect,.cell:hover rect{stroke:currentColor;stroke-width:2}"
)


def css(scope: str = "") -> str:
    """Everything that drawings need, light and dark."""
    fixed = "}".join(f"{scope}{rule}" if rule else "" for rule in _FIXED.split("}"))
    dark = style(DARK, scope)
    return f"{fixed}{style(LIGHT, scope)}@media (prefers-color-scheme:dark){{{dark}}}"


def svg(drawn: Picture, name: str = "timeline", *, alone: bool = True) -> str:
    """The picture as SVG.

    Args:
        drawn: What to write.
        name: Makes the ids of title and description unique in a page.
        alone: It is a file of its own, with a style and a background.
    """
    size = f'width="{drawn.width:g}" height="{drawn.height:g}"'
    view = f'viewBox="0 0 {drawn.width:g} {drawn.height:g}"'
    label = f'role="group" aria-labelledby="{name}-t" aria-describedby="{name}-d"'
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    first = True
    parts = []
    for shape in drawn.shapes:
        parts.append(_written(shape, first))
        first = first and not (isinstance(shape, Box) and shape.words)
    return "".join(
        [
            f'<svg class="timeline"{space} {size} {view} {label}>',
            f'<title id="{name}-t">{_safe(drawn.title)}</title>',
            f'<desc id="{name}-d">{_safe(drawn.about)}</desc>',
            _alone() if alone else "",
            *parts,
            "</svg>",
        ]
    )


def _alone() -> str:
    paper = f".paper{{fill:{LIGHT['paper']}}}@media (prefers-color-scheme:dark)"
    paper += f"{{.paper{{fill:{DARK['paper']}}}}}"
    back = '<rect class="paper" width="100%" height="100%"/>'
    return f"<style>{css()}{paper}</style>{back}"


def _written(shape: Shape, first: bool) -> str:
    if isinstance(shape, Word):
        anchor = ' text-anchor="middle"' if shape.middle else ""
        at = f'x="{shape.x:g}" y="{shape.y:g}"'
        hidden = ' aria-hidden="true" pointer-events="none"'
        text = _safe(shape.text)
        return f'<text class="{shape.kind}" {at}{anchor}{hidden}>{text}</text>'
    if isinstance(shape, Stroke):
        points = " ".join(f"{x:g},{y:g}" for x, y in shape.points)
        return f'<path class="{shape.kind}" d="M{points}"/>'
    box = (
        f'<rect class="{shape.kind}" x="{shape.x:g}" y="{shape.y:g}" '
        f'width="{shape.width:g}" height="{shape.height:.4g}" rx="3"/>'
    )
    if not shape.words:
        return box
    words, stop = _safe(shape.words), 0 if first else -1
    named = f'class="cell" role="img" tabindex="{stop}" aria-label="{words}"'
    return f"<g {named}><title>{words}</title>{box}</g>"


def _safe(text: str) -> str:
    """Text for XML: escaped, and without the control characters that it can't hold."""
    return escape(printable(masked(text), "�", keep="\n"))

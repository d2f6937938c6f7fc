"""A laid-out timeline painted as PNG. Needs matplotlib (extra `analysis`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from loopguard_lg.analysis.timeline_picture import Picture, Shape, Stroke, Word
from loopguard_lg.analysis.timeline_svg import DARK, HUES, LIGHT, ON_HUE


def png(drawn: Picture, file: str | Path | IO[bytes], *, dark: bool = False) -> None:
    """Paint the picture as PNG, at twice its size.

    Args:
        drawn: What to paint.
        file: A path, or a file that is open for bytes.
        dark: With the colours of the dark theme.
    """
    theme = DARK if dark else LIGHT
    figure = Figure(figsize=(drawn.width / 72, drawn.height / 72), dpi=144)
    FigureCanvasAgg(figure)
    figure.patch.set_facecolor(theme["paper"])
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, drawn.width)
    axes.set_ylim(drawn.height, 0)
    for shape in drawn.shapes:
        axes.add_artist(_painted(shape, theme))
    figure.savefig(file, format="png", facecolor=theme["paper"])


def _painted(shape: Shape, theme: Mapping[str, str]) -> Artist:
    colours = {"letter": ON_HUE, "failed": theme["loop"], "blocked": theme["rung"]}
    colours |= {f"hue{n}": hue for n, hue in enumerate(HUES)}
    colours |= {"other": "none", "clear": "none", **theme}
    colour = colours[shape.kind]
    if isinstance(shape, Word):
        text = shape.text.replace("$", r"\$")  # else it is set as a formula
        place = "center" if shape.middle else "left"
        look: dict[str, Any] = {
            "color": colour,
            "fontsize": 8,
            "ha": place,
            "va": "baseline",
        }
        return Text(shape.x, shape.y, text, **look)
    if isinstance(shape, Stroke):
        return Line2D(*zip(*shape.points, strict=True), color=colour, linewidth=1.5)
    edge = theme["line"] if shape.kind == "other" else "none"
    at, size = (shape.x, shape.y), (shape.width, shape.height)
    return Rectangle(at, *size, facecolor=colour, edgecolor=edge)

"""A timeline as shapes, laid out once: `timeline_svg` writes them, `timeline_png`
paints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from loopguard_lg.analysis.timeline import Cell, Column, Loop, Timeline, clipped, told

PER_BAND = 40
"""Events beside each other; more of them go on below."""

HUES = 8
"""Colours that tell calls apart which come again."""

_W, _H = 22, 20
_LEFT, _TOP = 76, 8
_LANE, _RUNG, _AXIS, _PROGRESS, _BARS = 16, 18, 16, 30, 26
ROWS = 5
"""Calls of a batch that are drawn below each other."""
_LEGEND = 8
"""Calls that the legend names."""

Point: TypeAlias = tuple[float, float]


SIGNS = "▲ reflect   ◆ escalate   ■ exit   ▁ failed or held   ● a person   … only words"
"""What the signs in a picture stand for."""


class Box(NamedTuple):
    """A rectangle; one with words is a thing that can be pointed at."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    words: str = ""


class Stroke(NamedTuple):
    """A line through points."""

    points: tuple[Point, ...]
    kind: str


class Word(NamedTuple):
    """A text; `x` is its start, or its middle."""

    x: float
    y: float
    text: str
    kind: str = "dim"
    middle: bool = False


Shape: TypeAlias = Box | Stroke | Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Shapes in a frame, with what they are in words."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str
    about: str


def picture(line: Timeline, *, legend: bool = True) -> Picture:
    """The timeline laid out.

    From top to bottom: loops bracketed, what the guard did, the calls as cells (one
    colour and letter for each call that comes again), progress as a line that rises
    where the task moved, and tokens as bars where they are known.
    """
    shapes: list[Shape] = []
    y = float(_TOP)
    starts = range(0, max(1, len(line.columns)), PER_BAND)
    for start in starts:
        band = _Band(line, start, y)
        shapes += band.shapes()
        y = band.bottom + 14
    if legend:
        found = list(_legend(line, y))
        shapes += found
        y += 18 * (len(found) // 2 + 1) + 4
    least = 24 if legend else 12  # a line of the legend has to fit
    columns = min(max(len(line.columns), least), PER_BAND)
    return Picture(
        width=_LEFT + columns * _W + 12,
        height=y,
        shapes=tuple(shapes),
        title=f"Timeline of the run {line.id}",
        about=line.summary,
    )


class _Band:
    """The events from `start` on that stand beside each other, from `top` down."""

    def __init__(self, line: Timeline, start: int, top: float) -> None:
        self.line, self.start, self.top = line, start, top
        self.columns = line.columns[start : start + PER_BAND]
        self.end = start + len(self.columns)
        self.lanes = _lanes(line.loops, start, self.end)
        rows = max([len(c.cells) for c in self.columns], default=1)
        self.rungs = top + _LANE * len(self.lanes)
        self.cells = self.rungs + _RUNG
        self.axis = self.cells + (_H + 2) * min(max(rows, 1), ROWS)
        self.progress = self.axis + _AXIS
        self.bars = self.progress + _PROGRESS
        self.counts = any(column.tokens for column in line.columns)
        self.bottom = self.bars + (_BARS if self.counts else 0)

    def shapes(self) -> Iterator[Shape]:
        """Everything in the band."""
        yield from self._names()
        for lane, loops in enumerate(self.lanes):
            for loop in loops:
                yield from self._bracket(loop, self.top + lane * _LANE)
        for at, column in enumerate(self.columns):
            yield from self._event(column, self._x(at))
        yield from self._progress()
        if self.counts:
            yield from self._tokens()

    def _x(self, at: int) -> float:
        return _LEFT + at * _W

    def _names(self) -> Iterator[Shape]:
        named = {"guard": self.rungs + 12, "calls": self.cells + 14}
        named |= {"progress": self.progress + 20}
        if self.lanes:
            named["loops"] = self.top + 11
        if self.counts:
            named["tokens"] = self.bars + 18
        for name, y in named.items():
            yield Word(4, y, name)

    def _bracket(self, loop: Loop, y: float) -> Iterator[Shape]:
        left = self._x(max(loop.first, self.start) - self.start)
        right = self._x(min(loop.last, self.end - 1) - self.start) + _W - 2
        low = y + _LANE - 2
        yield Stroke(
            ((left, low), (left, y + 11), (right, y + 11), (right, low)), "loop"
        )
        words = f"{loop.kind}, {loop.count} times: {loop.detail}"
        yield Box(left, y, max(right - left, _W), _LANE, "clear", words)
        name = f"{loop.kind} ×{loop.count}"
        # A letter is some six points wide; the name stays inside of the picture.
        inside = self._x(max(len(self.columns), 12)) - 6 * len(name)
        yield Word(min(left, inside), y + 8, name, "loop")

    def _event(self, column: Column, x: float) -> Iterator[Shape]:
        if column.action:
            sign = {"reflect": "▲", "escalate": "◆", "exit": "■"}[column.action]
            words = f"step {column.i}: {column.action}\n{column.why}"
            yield Box(x, self.rungs, _W - 2, _RUNG - 2, "clear", words)
            yield Word(x + (_W - 2) / 2, self.rungs + 13, sign, "rung", middle=True)
        if column.cells:
            yield from self._batch(column, x)
        else:
            yield Box(x, self.cells, _W - 2, _H, "other", told(column))
            sign = {"user": "●", "text": "…", "gap": "⋯"}.get(column.kind, "◇")
            middle = x + (_W - 2) / 2
            yield Word(middle, self.cells + 14, sign, "ink", middle=True)
        if column.i % 5 == 0:
            yield Word(x + (_W - 2) / 2, self.axis + 11, str(column.i), middle=True)

    def _batch(self, column: Column, x: float) -> Iterator[Shape]:
        shown, rest = in_rows(column.cells)
        for row, cell in enumerate(shown):
            y = self.cells + row * (_H + 2)
            yield Box(x, y, _W - 2, _H, _kind(self.line, cell), told(column, cell))
            if cell.letter:
                yield Word(x + 10, y + 14, cell.letter, "letter", middle=True)
            if cell.failed or cell.blocked:
                edge = y + _H - 2
                kind = "blocked" if cell.blocked else "failed"
                yield Stroke(((x + 2, edge), (x + _W - 4, edge)), kind)
        if rest:
            y = self.cells + len(shown) * (_H + 2)
            words = "\n".join(told(column, cell) for cell in rest)
            yield Box(x, y, _W - 2, _H, "other", words)
            yield Word(x + 10, y + 14, f"+{len(rest)}", "ink", middle=True)

    def _progress(self) -> Iterator[Shape]:
        moved = list(accumulate(column.moved for column in self.line.columns))
        top = max([*moved, 1])
        low = self.progress + _PROGRESS - 4
        right = self._x(len(self.columns))
        yield Stroke(((_LEFT, low), (right, low)), "line")
        points: list[Point] = []
        for at, height in enumerate(moved[self.start : self.end]):
            y = low - (_PROGRESS - 8) * height / top
            points += [(self._x(at), y), (self._x(at + 1), y)]
        if points:
            yield Stroke(tuple(points), "move")

    def _tokens(self) -> Iterator[Shape]:
        most = max(column.tokens for column in self.line.columns)
        for at, column in enumerate(self.columns):
            height = (_BARS - 6) * column.tokens / most
            y = self.bars + _BARS - height
            cost = "" if column.cost is None else f", ${column.cost:.4f}"
            words = f"step {column.i}: {column.tokens:,} tokens{cost}"
            if column.tokens:
                yield Box(self._x(at) + 3, y, _W - 8, height, "bar", words)


def in_rows(cells: Sequence[Cell]) -> tuple[Sequence[Cell], Sequence[Cell]]:
    """The calls of a batch that are drawn, and the rest, which shares the last row."""
    shown = cells if len(cells) <= ROWS else cells[: ROWS - 1]
    return shown, cells[len(shown) :]


def _kind(line: Timeline, cell: Cell) -> str:
    """The colour of a call: one for each that comes again, in order of how often."""
    if not cell.letter:
        return "once"
    return f"hue{list(line.repeated).index(cell.letter) % HUES}"


def _lanes(loops: Sequence[Loop], start: int, end: int) -> list[list[Loop]]:
    """Loops of these columns in as few lanes as keep them apart; three at most."""
    lanes: list[list[Loop]] = []
    for loop in (loop for loop in loops if loop.within(start, end)):
        for lane in lanes:
            # A name is some six cells wide.
            if max(lane[-1].last, max(lane[-1].first, start) + 6) < loop.first:
                lane.append(loop)
                break
        else:
            lanes.append([loop])
    return lanes[:3]


def _legend(line: Timeline, y: float) -> Iterator[Shape]:
    yield Word(_LEFT, y + 11, f"{SIGNS}   {line.spent}")
    y += 18
    named = list(line.repeated.items())[:_LEGEND]
    for n, (letter, (cell, times)) in enumerate(named):
        yield Box(_LEFT, y, 14, 14, f"hue{n % HUES}")
        label = f"{letter} ×{times}  {clipped(cell.label, 110)}"
        yield Word(_LEFT + 20, y + 11, label, "ink")
        y += 18

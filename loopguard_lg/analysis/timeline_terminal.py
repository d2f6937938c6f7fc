"""A timeline in a terminal, for those without a browser. Needs rich (extra `cli`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.console import Console
from rich.text import Text

from loopguard_lg.analysis.timeline import Cell, Column, Loop, Timeline, clipped
from loopguard_lg.analysis.timeline_picture import ROWS, in_rows
from loopguard_lg.quoting import printable

_STYLES = (
    "black on bright_blue", "black on yellow", "black on bright_red", "black on green",
    "black on magenta", "black on cyan", "black on bright_magenta", "black on white",
)  # fmt: skip
_SIGNS = {"reflect": "▲", "escalate": "◆", "exit": "■"}
_OTHER = {"user": "●", "text": "…", "gap": "⋯", "compaction": "≡", "progress": "+"}
_RISE = "▁▂▃▄▅▆▇█"
_LEGEND = (
    "▲ reflect  ◆ escalate  ■ exit  ! failed or held  ● a person  … only words  "
    "·· called once"
)
_NAME = 10


def show(line: Timeline, console: Console) -> None:
    """Print the timeline as wide as the terminal allows."""
    console.print(Text(printable(line.id), "bold"))
    for about in line.about:
        console.print(Text(printable(about), "dim"))
    wide = max(8, (console.width - _NAME - 1) // 3)
    for start in range(0, len(line.columns), wide):
        console.print()
        for row in _band(line, start, min(start + wide, len(line.columns))):
            console.print(row, no_wrap=True, crop=True)
    console.print()
    console.print(Text(_LEGEND, "dim"))
    for letter, (cell, times) in list(line.repeated.items())[: len(_STYLES)]:
        label = printable(clipped(cell.label, max(20, console.width - 12)))
        console.print(Text.assemble(_coloured(line, letter), f" ×{times}  {label}"))
    for loop in line.loops:
        told = f"{loop.kind} ×{loop.count}: {loop.detail}"
        console.print(Text(printable(told), "red"))


def _band(line: Timeline, start: int, end: int) -> Iterator[Text]:
    columns = line.columns[start:end]
    for loop in (loop for loop in line.loops if loop.within(start, end)):
        yield _bracket(loop, start, end)
    signs = "".join(f" {_SIGNS.get(column.action, ' ')} " for column in columns)
    if signs.strip():
        yield _row("guard", Text(signs, "magenta"))
    yield from _calls(line, columns)
    yield _progress(line, start, end)
    marks = (f"{'' if column.i % 5 else column.i:<3}" for column in columns)
    yield _row("step", Text("".join(marks), "dim"))


def _progress(line: Timeline, start: int, end: int) -> Text:
    moved = list(accumulate(column.moved for column in line.columns))
    rise = (_RISE[7 * n // max(1, moved[-1])] * 2 + " " for n in moved[start:end])
    return _row("progress", Text("".join(rise), "green"))


def _calls(line: Timeline, columns: Sequence[Column]) -> Iterator[Text]:
    rows = max(min(len(column.cells), ROWS) for column in columns)
    for at, name in enumerate(["calls", *[""] * (rows - 1)]):
        cells = (_cell(line, column, at) for column in columns)
        yield _row(name, Text.assemble(*cells))


def _row(name: str, content: Text) -> Text:
    return Text.assemble((f"{name:<{_NAME}}", "dim"), content)


def _bracket(loop: Loop, start: int, end: int) -> Text:
    first, last = max(loop.first, start) - start, min(loop.last, end - 1) - start
    wide = 3 * (last - first + 1) - 1
    name = f"{loop.kind} ×{loop.count}"[: max(0, wide - 2)]
    return _row("loop", Text(" " * 3 * first + f"┌{name:─<{max(0, wide - 2)}}┐", "red"))


def _cell(line: Timeline, column: Column, at: int) -> Text:
    if not column.cells:
        sign = _OTHER.get(column.kind, " ") if at == 0 else " "
        return Text(f"{sign}  ")
    shown, rest = in_rows(column.cells)
    if at >= len(shown):
        return Text(f"+{len(rest):<2}" if rest else "   ")
    cell = shown[at]
    bad = "!" if cell.failed or cell.blocked else " "
    return Text.assemble(_named(line, cell), (bad, "red"))


def _named(line: Timeline, cell: Cell) -> Text:
    return _coloured(line, cell.letter) if cell.letter else Text("··", "dim")


def _coloured(line: Timeline, letter: str) -> Text:
    at = list(line.repeated).index(letter)
    return Text(f"{letter:<2}"[:2], _STYLES[at % len(_STYLES)])

"""A comparison in Markdown, for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopguard_lg.analysis.blame import Cause
from loopguard_lg.analysis.compare import Change, Comparison, Slice
from loopguard_lg.quoting import printable
from loopguard_lg.redaction import masked


def markdown(found: Comparison) -> str:
    """The comparison as a pull request shows it; it can be read as plain text, too."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Comparison) -> Iterator[str]:
    yield f"## Agent runs: {'worse' if found.regressed else 'no worse'}"
    yield ""
    for part in found.slices:
        yield _about(part, found.long)
        yield ""
        yield "| | before | after | change | by chance | margin | |"
        yield "|---|--:|--:|--:|--:|--:|---|"
        yield from map(_row, part.changes)
        yield ""
    if len(found.slices) == 1:
        yield f"There is no long task, of {found.long} or more steps."
        yield ""
    yield from _causes(found)


def _about(part: Slice, long: int) -> str:
    which = "All tasks" if part.name == "all" else f"Long tasks ({long} or more steps)"
    how = "task by task" if part.paired else "different tasks"
    left = f", {part.left_out} left out" if part.left_out else ""
    return f"**{which}**: {part.runs[0]} runs before, {part.runs[1]} after, {how}{left}"


def _row(change: Change) -> str:
    if change.difference.value is None:
        return f"| {change.figure} | – | – | | | | not known |"
    d = change.difference
    ends = [_number(change, end, sign=True) for end in (d.low, d.high)]
    by = _number(change, d.value, sign=True)
    verdict = "**worse**" if change.worse else "ok"
    margin = _number(change, change.margin)
    return (
        f"| {change.figure} | {_number(change, change.before)} "
        f"| {_number(change, change.after)} | {by} [{ends[0]}, {ends[1]}] "
        f"| {_chance(change.p)} ({change.test}) | {margin} | {verdict} |"
    )


def _number(change: Change, value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return "–"
    plus = "+" if sign else ""
    if change.figure == "cost":
        return f"{value:{plus}.4f} $"
    if change.figure == "steps":
        return f"{value:{plus}.1f}"
    return f"{value:{plus}.1%}"


def _chance(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _causes(found: Comparison) -> Iterator[str]:
    if not found.causes:
        yield "Model and versions are the same as before, as far as the runs say."
        return
    yield "**What changed**"
    yield ""
    for cause in found.causes:
        yield f"- {_cause(cause, found.regressed)}"


def _cause(cause: Cause, regressed: bool) -> str:
    owner = f" (owner: {_plain(cause.owner)})" if cause.owner else ""
    before, after = ", ".join(cause.before), ", ".join(cause.after)
    text = f"{cause.part}{owner}: {_plain(before)} → {_plain(after)}"
    new, old = cause.runs
    text += f", {new} of {new + old} runs"
    if not regressed or not cause.explains:
        return text
    same = f" together with {', '.join(cause.with_)}" if cause.with_ else ""
    only = " only where it is new" if old else ""
    return f"**{text}**: worse{only}{same}"


def _plain(text: str) -> str:
    """A text of a recording that can't become markup, a link or a mention."""
    shown = printable(" ".join(masked(text).split())[:120])
    escaped = re.sub(r"([\\`*_{}\[\]<>()#|!~&])", r"\\\1", shown)
    # Code hosts link by the look of a text: with a blank it has another.
    return re.sub(r"(?:@|://|www\.)(?=\S)", r"\g<0> ", escaped)
